"""Progress on stderr."""

import io
import json
import os
import pty
import threading
from itertools import islice, takewhile

import pytest
from rich.console import Console

from sglrun.backends.base import Usage
from sglrun.display.displays import choose_progress, create_progress
from sglrun.display.live import render
from sglrun.display.meter import Meter
from sglrun.display.plain import PlainProgress, intervals, json_line, text_line
from sglrun.display.snapshot import Snapshot
from sglrun.display.stderr import QuietStream

BUSY = Snapshot(
    ok=400,
    failed=12,
    total=1000,
    in_flight=96,
    usage=Usage(requests=800, prompt_tokens=1_200_000, cached_tokens=1_044_000),
    elapsed_s=33,
    rate=12.4,
)


def drawn(snapshot: Snapshot, width: int) -> list[str]:
    """Return the lines of the live display."""
    console = Console(file=io.StringIO(), width=width, color_system=None)
    with console.capture() as capture:
        console.print(render(snapshot, width))
    return capture.get().splitlines()


def test_a_log_grows_by_less_than_5_kb_an_hour() -> None:
    """An hour of plain lines, the longest there are, is under 5 KB."""
    line = text_line(BUSY) + "\n"
    times: list[float] = []
    elapsed = 0.0
    for interval in islice(intervals(), 1000):
        elapsed += interval
        times.append(elapsed)
    lines = len(list(takewhile(lambda time: time <= 3600, times)))

    assert lines > 20
    assert lines * len(line) < 5000


def test_the_first_line_comes_soon() -> None:
    """Who waits at a pipe sees a line within seconds, then at growing intervals."""
    first = list(islice(intervals(), 12))

    assert first[0] <= 2
    assert first == sorted(first)


def test_json_lines_are_json() -> None:
    """A machine reads one object a line."""
    told = json.loads(json_line(BUSY))

    assert told["event"] == "progress"
    assert (told["done"], told["total"], told["failed"]) == (412, 1000, 12)


@pytest.mark.parametrize("width", [20, 40, 80, 120, 200])
def test_the_live_display_fits(width: int) -> None:
    """The display is two lines that fit the terminal, however narrow."""
    lines = drawn(BUSY, width)

    assert len(lines) == 2
    assert all(len(line) <= width for line in lines)


def test_the_live_display_at_80_columns() -> None:
    """At 80 columns the display tells rows, pace, failures, flight and cache."""
    bar, facts = drawn(BUSY, 80)

    assert bar.rstrip().endswith("412/1,000 rows  41%")
    assert facts.rstrip() == (
        "12.4/s, 47 s left · 12 failed · 96 in flight · "
        "87% of 1.20M prompt tokens cached"
    )


def test_the_live_display_of_an_endless_input() -> None:
    """Without a total the display tells the rows done and draws no share."""
    bar, _ = drawn(Snapshot(ok=7), 80)

    assert bar.rstrip().endswith("  7 rows")
    assert "%" not in bar


class Recording(io.StringIO):
    """A stream that tells when something is written."""

    def __init__(self) -> None:
        """Begin empty."""
        super().__init__()
        self.written = threading.Event()

    def write(self, text: str) -> int:
        """Keep *text*."""
        count = super().write(text)
        self.written.set()
        return count


def test_a_plain_display_writes_while_nothing_happens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A line comes though no row ends, and none after the stop."""
    monkeypatch.setattr("sglrun.display.plain._FIRST_S", 0.01)
    stream = Recording()
    progress = PlainProgress(Meter(), QuietStream(stream), text_line)
    progress.start()
    came = stream.written.wait(10)
    progress.stop()

    assert came
    assert stream.getvalue().splitlines()[0] == "sglrun: 0 rows"


@pytest.mark.parametrize("name", ["rich", "plain", "json", "none"])
def test_every_display_starts_and_stops(name: str) -> None:
    """Every display can be shown on a stream that fails, and be ended."""
    stream = io.StringIO()
    stream.close()
    progress = create_progress(name, Meter(), QuietStream(stream))
    progress.start()
    progress.stop()

    assert stream.closed


@pytest.mark.parametrize(
    ("asked", "terminal", "dumb", "chosen"),
    [
        ("auto", True, False, "rich"),
        ("auto", True, True, "plain"),
        ("auto", False, False, "plain"),
        ("json", True, False, "json"),
        ("rich", False, False, "rich"),
    ],
)
def test_auto_looks_at_the_terminal(
    *, asked: str, terminal: bool, dumb: bool, chosen: str
) -> None:
    """``auto`` is rich on a terminal that can move its cursor, plain elsewhere."""
    leader, follower = pty.openpty()
    with os.fdopen(leader), os.fdopen(follower, "w") as tty:
        stream = QuietStream(tty if terminal else io.StringIO())

        assert choose_progress(asked, stream, dumb=dumb) == chosen


class Full(io.StringIO):
    """A stream on a full disk."""

    def write(self, text: str) -> int:
        """Fail."""
        raise OSError(28, f"No space left for {text!r}")


def test_a_stream_that_is_gone_is_silent() -> None:
    """What is written to a closed, full or missing stderr is dropped."""
    for stream in (QuietStream(None), QuietStream(Full())):
        assert stream.write("x") == 1

        stream.flush()
        assert not stream.isatty()
