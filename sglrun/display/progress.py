"""Progress: what is shown on stderr while a run lasts."""

from sglrun.display.meter import Meter
from sglrun.display.stderr import QuietStream


class Progress:
    """A display of a run's progress; this one shows nothing."""

    def __init__(self, meter: Meter, stream: QuietStream) -> None:
        """Show *meter* on *stream*."""
        self._meter = meter
        self._stream = stream

    def start(self) -> None:
        """Begin to show."""

    def stop(self) -> None:
        """End, and leave the terminal clean."""

    def write_above(self, line: str) -> None:
        """Write *line* where the display does not disturb it."""
        self._stream.write(f"{line}\n")
        self._stream.flush()
