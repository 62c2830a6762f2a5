"""Unconditional scores: those of options with nothing before them."""

from collections.abc import Iterable

from sglrun.backends.local.engine import Engine
from sglrun.backends.local.radix import Tokens
from sglrun.backends.local.scoring import Scoring

# Options whose scores are kept: a program has a few, unless its rows bring them.
_REMEMBERED = 10_000


class UnconditionalScores:
    """Log-probabilities that are computed once for each option; for any thread."""

    def __init__(self, engine: Engine) -> None:
        """Know of none; *engine* computes them."""
        self._engine = engine
        # Written by any thread: always the same for the same tokens.
        self._known: dict[Tokens, tuple[float, ...]] = {}

    def of(self, options: Iterable[Tokens]) -> tuple[tuple[float, ...], ...]:
        """Return those of the tokens of each of *options*; waits. The first scores 0.

        Raises:
            BackendError: the engine is closed.
        """
        wanted = tuple(options)
        scores = {option: self._known.get(option) for option in wanted}
        jobs = {
            option: Scoring(option[:1], (option[1:],))
            for option, known in scores.items()
            if known is None and len(option) > 1
        }
        for job in jobs.values():
            self._engine.start(job)
        for option, job in jobs.items():
            self._engine.wait(job)
            scores[option] = (0.0, *job.scores[0])
        if len(self._known) > _REMEMBERED:
            self._known.clear()
        self._known |= {option: scores[option] or (0.0,) for option in jobs}
        return tuple(scores[option] or (0.0,) for option in wanted)
