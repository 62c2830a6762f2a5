"""Scoring: the job of telling how likely each of several texts is after a prompt.

Rule: what options begin with alike is computed once, wherever that is worth the further
step that it takes.
"""

from collections.abc import Sequence
from itertools import takewhile

from sglrun.backends.local.context import Logits
from sglrun.backends.local.job import Job, Lane
from sglrun.backends.local.radix import Tokens
from sglrun.backends.local.sampler import log_total

# Tokens that take as long to compute as one pass over the weights: 4 ms each and 18 ms
# for the model that comes with it, on two cores; both grow with a model.
_PASS = 4


class Scoring(Job):
    """Log-probabilities of the tokens of each option, given the prompt.

    The prompt is computed once; the options go on from it, those of one token for
    nothing.

    Attributes:
        options: their tokens.
        scores: for each option, the natural-log probability of each of its tokens.
    """

    def __init__(self, prompt: Tokens, options: tuple[Tokens, ...]) -> None:
        """Take the *options*, each of at least one token."""
        longer = tuple(len(option) - 1 for option in options if len(option) > 1)
        super().__init__(prompt, lane_cells=longer)
        self.options = options
        self.scores: list[list[float]] = [[] for _ in options]
        self._best = float("-inf")

    def read(self, position: int, logits: Logits) -> None:
        """Score the first token of every option."""
        if position == len(self.prompt) - 1:
            self.score(range(len(self.options)), 0, logits)

    def lanes(self) -> tuple[Lane, ...]:
        """Return lanes for the options that have more than one token."""
        return self.branches(range(len(self.options)), 0)

    def score(self, numbers: Sequence[int], at: int, logits: Logits) -> None:
        """Score token *at* of the options with *numbers*, as far as they have it."""
        total = log_total(logits)
        for number in numbers:
            for token in self.options[number][at : at + 1]:
                self.scores[number].append(float(logits[token]) - total)

    def branches(self, numbers: Sequence[int], start: int) -> tuple[Lane, ...]:
        """Return lanes from token *start* on, for those that have two more at least."""
        groups: dict[int, list[int]] = {}
        for number in numbers:
            option = self.options[number]
            if len(option) > start + 1:
                groups.setdefault(option[start], []).append(number)
        return tuple(
            lane for group in groups.values() for lane in self._lanes(group, start)
        )

    def is_best(self, number: int) -> bool:
        """Return whether option *number* is the likeliest so far, by its mean."""
        mean = sum(self.scores[number]) / len(self.scores[number])
        is_best = mean > self._best
        self._best = max(mean, self._best)
        return is_best

    def _lanes(self, group: list[int], start: int) -> list[Lane]:
        """Return one lane for *group*, or one for each where little is alike."""
        options = [self.options[number] for number in group]
        columns = zip(*options, strict=False)
        same = sum(1 for _ in takewhile(lambda each: len(set(each)) == 1, columns))
        alike = min(same, max(map(len, options)) - 1)  # nothing follows the last token
        if (len(group) - 1) * (alike - start) >= _PASS:
            return [_Branch(self, group, range(start, alike))]
        return [
            _Branch(self, [n], range(start, len(self.options[n]) - 1)) for n in group
        ]


class _Branch(Lane):
    """The tokens of a *span* in which several options are alike, or one stands alone.

    What is computed of the likeliest is kept: a program goes on from it.
    """

    def __init__(self, job: Scoring, numbers: list[int], span: range) -> None:
        length = len(job.prompt)
        known = job.prompt + job.options[numbers[0]][: span.stop]
        super().__init__(known, computed=length, wanted_from=length + span.start)
        self._job = job
        self._numbers = numbers
        self._span = span

    def read(self, position: int, logits: Logits) -> None:
        following = position + 1 - len(self._job.prompt)
        self._job.score(self._numbers, following, logits)
        self.wanted_from = position + 1
        self.done = following == self._span.stop
        if self.done:
            first, *others = self._numbers
            self.is_kept = bool(others) or self._job.is_best(first)

    def following(self) -> tuple[Lane, ...]:
        """Return lanes for those that go on."""
        return self._job.branches(self._numbers, self._span.stop)
