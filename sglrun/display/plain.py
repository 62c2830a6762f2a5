"""The plain display: a line now and then, for logs and for machines."""

import json
import threading
from collections.abc import Callable, Iterator
from itertools import accumulate, repeat

from sglrun.display.meter import Meter
from sglrun.display.progress import Progress
from sglrun.display.snapshot import Snapshot, plain_line
from sglrun.display.stderr import QuietStream

_FIRST_S = 2.0
_GROWTH = 1.5
# A line of 120 bytes every 2 minutes makes 4 KB an hour.
_LONGEST_S = 120.0


class PlainProgress(Progress):
    """A line of progress at growing intervals, also while nothing happens.

    A thread of its own writes them; ``stop`` joins it.
    """

    def __init__(
        self, meter: Meter, stream: QuietStream, line: Callable[[Snapshot], str]
    ) -> None:
        """Show *meter* on *stream*, as *line* words it."""
        super().__init__(meter, stream)
        self._line = line
        self._stopped = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name="sglrun-progress", daemon=True
        )

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def stop(self) -> None:
        """End; no line is written after this."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        for interval in intervals():
            if self._stopped.wait(interval):
                return
            self._stream.write(self._line(self._meter.snapshot()) + "\n")
            self._stream.flush()


def intervals() -> Iterator[float]:
    """Return the seconds between lines: short at first, then ever longer."""
    return accumulate(
        repeat(_GROWTH),
        lambda last, growth: min(last * growth, _LONGEST_S),
        initial=_FIRST_S,
    )


def text_line(snapshot: Snapshot) -> str:
    """Return a line for people."""
    return f"sglrun: {plain_line(snapshot)}"


def json_line(snapshot: Snapshot) -> str:
    """Return a line for machines: one JSON object."""
    usage = snapshot.usage
    return json.dumps(
        {
            "event": "progress",
            "done": snapshot.done,
            "total": snapshot.total,
            "failed": snapshot.failed,
            "in_flight": snapshot.in_flight,
            "rows_per_s": round(snapshot.rate, 2),
            "seconds": round(snapshot.elapsed_s, 1),
            "idle_s": round(snapshot.idle_s, 1),
            "waiting": snapshot.waiting,
            "prompt_tokens": usage.prompt_tokens,
            "cached_tokens": usage.cached_tokens,
            "completion_tokens": usage.completion_tokens,
        }
    )
