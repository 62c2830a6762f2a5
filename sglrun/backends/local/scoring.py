"""Scoring: the job of telling how likely each of several texts is after a prompt."""

from sglrun.backends.local.context import Logits
from sglrun.backends.local.job import Job, Lane
from sglrun.backends.local.radix import Tokens
from sglrun.backends.local.sampler import log_total


class Scoring(Job):
    """Log-probabilities of the tokens of each option, given the prompt.

    The prompt is computed once; the options go on from it, those of one token for
    nothing.

    Attributes:
        scores: for each option, the natural-log probability of each of its tokens.
        best: the highest mean of them so far, among options of several tokens.
    """

    def __init__(self, prompt: Tokens, options: tuple[Tokens, ...]) -> None:
        """Take the *options*, each of at least one token."""
        longer = tuple(len(option) - 1 for option in options if len(option) > 1)
        super().__init__(prompt, lane_cells=longer)
        self._options = options
        self.scores: list[list[float]] = []
        self.best = float("-inf")

    def read(self, position: int, logits: Logits) -> None:
        """Score the first token of every option."""
        if position == len(self.prompt) - 1:
            total = log_total(logits)
            self.scores = [
                [float(logits[option[0]]) - total] for option in self._options
            ]

    def lanes(self) -> tuple[Lane, ...]:
        """Return a lane for each option that has more than one token."""
        return tuple(
            _OptionLane(self, option, scores)
            for option, scores in zip(self._options, self.scores, strict=True)
            if len(option) > 1
        )


class _OptionLane(Lane):
    """The tokens of an option after the first.

    What is computed of the likeliest is kept: a program goes on from it.
    """

    def __init__(self, job: Scoring, option: Tokens, scores: list[float]) -> None:
        length = len(job.prompt)
        super().__init__(job.prompt + option[:-1], computed=length, wanted_from=length)
        self._job = job
        self._option = option
        self._scores = scores

    def read(self, position: int, logits: Logits) -> None:
        token = self._option[position + 1 - len(self._job.prompt)]
        self._scores.append(float(logits[token]) - log_total(logits))
        self.wanted_from = position + 1
        self.done = len(self._scores) == len(self._option)
        if self.done:
            mean = sum(self._scores) / len(self._scores)
            self.is_kept = mean > self._job.best
            self._job.best = max(mean, self._job.best)
