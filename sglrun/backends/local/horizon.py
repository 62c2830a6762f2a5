"""The horizon: how long tokens that nobody uses are worth keeping.

A step looks at every cell that is filled, those of other texts too, only to pass over
them. To keep a token for a while therefore takes time, as to compute it again does;
which is less depends on how often and how late it is used again.
"""

from bisect import bisect_left
from collections import deque
from itertools import accumulate

# Horizons to choose from, in tokens that are computed meanwhile; the shortest is what
# it pays to wait where one run of so many is used again.
_HORIZONS = (128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768)
_LIKELY = 12
# A long run is likely to be a document that is asked about again: none is given up
# before such a part of what it is worth has been computed, since too little is known.
_LEARNING = 0.75
_LONG = 256
# What was given up is known again by the text up to each so many tokens.
_MARK = 16
_REMEMBERED = 16_384
# A program asks what goes on from an answer within so many steps.
_STEPS = 3
# Where less than this share of runs goes on, none is waited for. A run counts for so
# much of the share, and so much is assumed at first.
_FEW, _WEIGHT, _AT_FIRST = 0.05, 1 / 8, 0.1


class Horizon:
    """What was used again, and how many tokens had been computed until then.

    Attributes:
        computed: tokens computed so far, which is the clock here.
    """

    def __init__(self, worth: int) -> None:
        """Begin at zero.

        Args:
            worth: for how many other tokens passing over one takes as long as to
                compute it.
        """
        self._worth = worth
        self._learning = worth * _LEARNING
        self._horizons = [each for each in _HORIZONS if each * _LIKELY >= worth]
        self._begun: deque[int] = deque((0,), _STEPS)  # when the last steps began
        self._going_on = _AT_FIRST  # the share of short runs that were used again
        self.computed = 0
        self._reused = [0] * (len(self._horizons) + 1)
        self._given_up: dict[int, int] = {}

    def advance(self, computed: int) -> None:
        """Note that a step *computed* so many tokens."""
        self._begun.append(self.computed)
        self.computed += computed

    def note_reuse(self, tokens: int, since: int) -> None:
        """Note that *tokens*, last used at *since*, are used again now."""
        self._reused[bisect_left(self._horizons, self.computed - since)] += tokens
        if _MARK <= tokens < _LONG:
            self._going_on += (1 - self._going_on) * _WEIGHT

    def note_given_up(self, text: tuple[int, ...], start: int, since: int) -> None:
        """Note that *text* from *start* on, last used at *since*, was given up."""
        if len(text) - start < _LONG:
            self._going_on -= self._going_on * _WEIGHT
        for _, mark in _marks(text, start):
            self._given_up[mark] = since
        while len(self._given_up) > _REMEMBERED:
            del self._given_up[next(iter(self._given_up))]

    def note_new(self, text: tuple[int, ...], start: int) -> None:
        """Note that *text* is computed from *start* on: it may have been given up."""
        known = [each for each in _marks(text, start) if each[1] in self._given_up]
        if known:
            length, mark = known[-1]
            self.note_reuse(length - start, self._given_up[mark])
        for _, mark in known:
            del self._given_up[mark]

    def oldest(self, length: int) -> int:
        """Return the time before which a run of *length* is not worth keeping."""
        if self.computed < self._learning and length >= _LONG:
            return 0
        saved = (tokens * self._worth for tokens in accumulate(self._reused))
        gains = [
            gained - self.computed * horizon
            for gained, horizon in zip(saved, self._horizons, strict=False)
        ]
        longest = self._horizons[gains.index(max(gains))]
        if length < _LONG and longest == self._horizons[0] and self._going_on < _FEW:
            return self.computed
        return min(self.computed - longest, self._begun[0])


def _marks(text: tuple[int, ...], start: int) -> list[tuple[int, int]]:
    """Return lengths of *text* beyond *start*, and a number that stands for each."""
    chained = 0
    found = []
    for length, token in enumerate(text, 1):
        chained = hash((chained, token))
        if length > start and length % _MARK == 0:
            found.append((length, chained))
    return found
