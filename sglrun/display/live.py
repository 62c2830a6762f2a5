"""The live display: two lines that stay at the bottom of a terminal."""

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from sglrun.display import wording
from sglrun.display.meter import Meter
from sglrun.display.progress import Progress
from sglrun.display.snapshot import Snapshot, cached, pace, position
from sglrun.display.stderr import QuietStream

_FRAMES_PER_S = 8
_WIDEST_BAR = 48
_UNKNOWN_WIDTH = 80
_SEPARATOR = " · "


class LiveProgress(Progress):
    """A progress bar with what is worth knowing below it, redrawn 8 times a second.

    While it is shown, what the process prints goes above it.
    """

    def __init__(self, meter: Meter, stream: QuietStream) -> None:
        """Show *meter* on *stream*, which is a terminal."""
        super().__init__(meter, stream)
        self._console = Console(file=stream, force_terminal=True, highlight=False)
        if self._console.width < 1:  # COLUMNS=0, as cron has it
            self._console.width = _UNKNOWN_WIDTH
        self._live = Live(
            console=self._console,
            get_renderable=self._render,
            refresh_per_second=_FRAMES_PER_S,
            transient=True,
        )

    def start(self) -> None:
        """Begin to draw, in a thread of its own."""
        self._live.start(refresh=True)

    def stop(self) -> None:
        """Wipe the display."""
        self._live.stop()

    def write_above(self, line: str) -> None:
        """Write a line of results above the display."""
        self._console.print(Text(line), soft_wrap=True)

    def _render(self) -> Group:
        return render(self._meter.snapshot(), self._console.width)


def render(snapshot: Snapshot, width: int) -> Group:
    """Return the display of *snapshot* for a terminal of *width* columns."""
    return Group(_bar(snapshot, width), _facts(snapshot, width))


def _bar(snapshot: Snapshot, width: int) -> Table:
    words = position(snapshot)
    if snapshot.total:
        words += f"  {wording.share(snapshot.done, snapshot.total)}"
    room = max(4, min(_WIDEST_BAR, width - len(words) - 3))
    bar = ProgressBar(
        total=snapshot.total or None,
        completed=snapshot.done,
        width=room,
        pulse=not snapshot.total,
        complete_style="green",
        finished_style="green",
        pulse_style="green",
    )
    grid = Table.grid(padding=(0, 2))
    grid.add_row(bar, Text(words, style="bold", no_wrap=True))
    return grid


def _facts(snapshot: Snapshot, width: int) -> Text:
    """Return what is worth knowing, most important first, as far as it fits."""
    facts = (
        (pace(snapshot), "yellow" if snapshot.stalled or snapshot.waiting else ""),
        (f"{snapshot.failed:,} failed" if snapshot.failed else "", "red"),
        (f"{snapshot.in_flight:,} in flight" if snapshot.in_flight else "", ""),
        (cached(snapshot.usage), ""),
        (f"{wording.duration(snapshot.elapsed_s)} elapsed", "dim"),
    )
    line = Text(no_wrap=True, overflow="ellipsis")
    for words, style in facts:
        separator = _SEPARATOR if line else ""
        if words and len(line) + len(separator) + len(words) <= width:
            line.append(separator, "dim").append(words, style)
    return line
