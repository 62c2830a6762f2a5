"""The horizon: how long tokens that nobody uses are worth keeping.

A step looks at every cell that is filled, those of other texts too, only to pass over
them. To keep a token for a while therefore takes time, as to compute it again does;
which is less depends on how often and how late it is used again.
"""

from bisect import bisect_left
from itertools import accumulate

# Horizons to choose from, in tokens that are computed meanwhile.
_HORIZONS = (1024, 2048, 4096, 8192, 16384, 32768)
# A long run is likely to be a document that is asked about again: none is given up
# before so many tokens have been computed, since too little is known.
_LEARNING = 8192
_LONG = 256
# To compute a token takes as long as to pass over one cell for so many other tokens:
# 5 ms and 0.44 µs for the model that comes with it, on two cores; both grow with a
# model's layers.
_WORTH = 11_000
# A run that was given up is known again by its first tokens, so many of them.
_HEADS = (16, 32, 64, 128, 256, 512, 1024, 2048)
_REMEMBERED = 4096


class Horizon:
    """What was used again, and how many tokens had been computed until then.

    Attributes:
        computed: tokens computed so far, which is the clock here.
    """

    def __init__(self) -> None:
        """Begin at zero."""
        self.computed = 0
        self._reused = [0] * (len(_HORIZONS) + 1)
        self._given_up: dict[int, int] = {}

    def note_reuse(self, tokens: int, since: int) -> None:
        """Note that *tokens*, last used at *since*, are used again now."""
        self._reused[bisect_left(_HORIZONS, self.computed - since)] += tokens

    def note_given_up(self, run: tuple[int, ...], since: int) -> None:
        """Note that *run*, last used at *since*, was not worth keeping."""
        for head in _HEADS:
            if head <= len(run):
                self._given_up[hash(run[:head])] = since
        while len(self._given_up) > _REMEMBERED:
            del self._given_up[next(iter(self._given_up))]

    def note_new(self, run: tuple[int, ...]) -> None:
        """Note that *run* is computed, which might have been given up before."""
        for head in reversed(_HEADS):
            if head <= len(run):
                since = self._given_up.pop(hash(run[:head]), None)
                if since is not None:
                    # More are the same, but not twice as many.
                    self.note_reuse(min(len(run), head * 3 // 2), since)
                    return

    def oldest(self, length: int) -> int:
        """Return the time before which a run of *length* is not worth keeping."""
        if self.computed < _LEARNING and length >= _LONG:
            return 0
        saved = (tokens * _WORTH for tokens in accumulate(self._reused))
        gains = [
            gained - self.computed * horizon
            for gained, horizon in zip(saved, _HORIZONS, strict=False)
        ]
        return self.computed - _HORIZONS[gains.index(max(gains))]
