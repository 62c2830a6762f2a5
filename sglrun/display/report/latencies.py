"""The latencies of rows: their quantiles and how they are spread.

Four bytes a row: exact, and 4 MB for a million.
"""

import math
from array import array
from dataclasses import dataclass

_BARS = 36
_TAIL = 0.99
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """How many rows took how long.

    Attributes:
        step_s: the width of a bar.
        counts: rows by bar, from 0 seconds on.
        beyond: rows that took longer than all bars.
    """

    step_s: float
    counts: tuple[int, ...]
    beyond: int

    @property
    def end_s(self) -> float:
        """Where the last bar ends."""
        return self.step_s * len(self.counts)


class Latencies:
    """Seconds of rows, in any order."""

    def __init__(self) -> None:
        """Begin without any."""
        self._seconds = array("f")
        self._sorted = True

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._seconds)

    def add(self, seconds: float) -> None:
        """Add the latency of a row."""
        self._seconds.append(max(0.0, seconds))
        self._sorted = False

    def quantile(self, part: float) -> float:
        """Return what *part* of the rows, from 0 to 1, took no longer than.

        It is the latency of a row, and 0 where there is none.
        """
        if not self._seconds:
            return 0.0
        if not self._sorted:
            self._seconds = array("f", sorted(self._seconds))
            self._sorted = True
        return self._seconds[max(0, math.ceil(part * len(self._seconds)) - 1)]

    def spread(self) -> Spread:
        """Return how they are spread; the slowest hundredth may lie beyond the bars."""
        step = _round_step(self.quantile(_TAIL) / _BARS)
        bars = int(self.quantile(_TAIL) / step) + 1
        counts = [0] * bars
        beyond = 0
        for seconds in self._seconds:
            bar = int(seconds / step)
            if bar < bars:
                counts[bar] += 1
            else:
                beyond += 1
        return Spread(step_s=step, counts=tuple(counts), beyond=beyond)


def _round_step(least: float) -> float:
    """Return the next number after *least* that people count in."""
    if least <= 0:
        return 1.0
    size = 10.0 ** math.floor(math.log10(least))
    return size * next(step for step in _STEPS if step * size >= least)
