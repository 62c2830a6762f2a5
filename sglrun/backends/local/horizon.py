"""The horizon: how long tokens that nobody uses are worth keeping.

A step looks at every cell that is filled, those of other texts too, only to pass over
them. To keep a token for a while therefore takes time, as to compute it again does;
which is less depends on how often and how late it is used again.
"""

from bisect import bisect_left

# Horizons to choose from, in tokens that are computed meanwhile.
_HORIZONS = (1024, 2048, 4096, 8192, 16384, 32768)
# Nothing is given up before so many tokens have been computed: too little is known.
_LEARNING = 8192
# To compute a token takes as long as to pass over one cell for so many other tokens:
# 5 ms and 0.44 µs for the model that comes with it, on two cores; both grow with a
# model's layers.
_WORTH = 11_000


class Horizon:
    """What was used again, and how many tokens had been computed until then.

    Attributes:
        computed: tokens computed so far, which is the clock here.
    """

    def __init__(self) -> None:
        """Begin at zero."""
        self.computed = 0
        self._reused = [0] * (len(_HORIZONS) + 1)

    def note_reuse(self, tokens: int, since: int) -> None:
        """Note that *tokens*, last used at *since*, are used again now."""
        self._reused[bisect_left(_HORIZONS, self.computed - since)] += tokens

    def oldest(self) -> int:
        """Return the time before which what was last used is not worth keeping."""
        if self.computed < _LEARNING:
            return 0
        saved, best, kept_for = 0, 0, _HORIZONS[0]
        for reused, horizon in zip(self._reused, _HORIZONS, strict=False):
            saved += reused * _WORTH
            gain = saved - self.computed * horizon
            if horizon == _HORIZONS[0] or gain > best:
                best, kept_for = gain, horizon
        return self.computed - kept_for
