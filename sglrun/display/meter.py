"""The meter: counts results as they come, for whoever wants to see where a run is."""

import threading
import time
from collections import deque
from collections.abc import Callable

from sglrun.backends.base import Usage
from sglrun.display.snapshot import Snapshot

_WINDOW_S = 30.0
_SAMPLE_S = 0.5


class Meter:
    """Counts of a run. One thread adds, any thread looks."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Measure by *clock*, in seconds that only go up, from now on."""
        self._lock = threading.Lock()
        self._clock = clock
        self._in_flight: Callable[[], int] | None = None
        self._waiting: Callable[[], str] = str
        self._total: int | None = None
        self._resumed = 0
        self._ok = 0
        self._failed = 0
        self._usage = Usage()
        self.begin()

    def begin(self) -> None:
        """Measure from now on; nothing has been counted yet."""
        self._began = self._last = self._clock()
        self._samples = deque([(self._began, 0)])

    def watch(
        self, in_flight: Callable[[], int], waiting: Callable[[], str] = str
    ) -> None:
        """Ask how many rows are being worked on, and what all wait for, if they do."""
        self._in_flight = in_flight
        self._waiting = waiting

    def expect(self, total: int) -> None:
        """Take how many rows the input has."""
        with self._lock:
            self._total = total

    def resume(self, rows: int) -> None:
        """Take how many rows an earlier run had finished, of those seen so far."""
        with self._lock:
            self._resumed = rows

    def add(self, *, ok: bool, usage: Usage) -> None:
        """Count a row that ended, and what it cost."""
        now = self._clock()
        with self._lock:
            if ok:
                self._ok += 1
            else:
                self._failed += 1
            self._usage += usage
            self._last = now
            if now - self._samples[-1][0] >= _SAMPLE_S:
                self._sample(now)

    def snapshot(self) -> Snapshot:
        """Return where the run stands now."""
        now = self._clock()
        with self._lock:
            since, before = self._samples[0]
            passed = now - since
            ended = self._ok + self._failed - before
            return Snapshot(
                ok=self._ok,
                failed=self._failed,
                resumed=self._resumed,
                total=self._total,
                in_flight=self._in_flight() if self._in_flight else None,
                usage=self._usage,
                elapsed_s=now - self._began,
                rate=ended / passed if passed > 0 else 0.0,
                idle_s=now - self._last,
                waiting=self._waiting(),
            )

    def _sample(self, now: float) -> None:
        self._samples.append((now, self._ok + self._failed))
        while len(self._samples) > 2 and now - self._samples[1][0] > _WINDOW_S:  # noqa: PLR2004 - the window's two ends
            self._samples.popleft()
