"""The streams of the process: results on stdout, everything else on stderr.

The author's ``print`` goes to stderr, so that nothing but results reaches stdout.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from errno import EBADF

from sglrun.display.stderr import QuietStream
from sglrun.errors import RunStoppedError, UsageError

STDOUT, STDERR = 1, 2
BROKEN_PIPE = 128 + 13
"""What a shell reports for a filter whose reader went away (SIGPIPE)."""


class ReaderGoneError(Exception):
    """Nobody reads stdout any more; not an error of the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Streams:
    """Where a command writes.

    Attributes:
        err: stderr; writing to it never fails.
        out_is_open: stdout was open when the process began.
        out_is_terminal: results are read by a person.
    """

    err: QuietStream
    out_is_open: bool
    out_is_terminal: bool

    def say(self, line: str) -> None:
        """Write *line* to stderr, above the progress if that is shown."""
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()

    def need_stdout(self) -> None:
        """Check that results can go to stdout.

        Raises:
            UsageError: it was closed when the process began.
        """
        if not self.out_is_open:
            raise UsageError("stdout is closed, so nobody would see the results")

    def show(self, text: str) -> None:
        """Write *text* to stderr as it is."""
        self.err.write(text)
        self.err.flush()


def open_streams() -> Streams:
    """Return the process's streams; from here on nothing fails for want of stderr.

    A descriptor that is closed is opened on nothing first: the next file to be opened
    would get its number, and be written to by mistake.
    """
    was_open = [_hold(number) for number in range(3)]
    err = QuietStream(sys.stderr if was_open[STDERR] else None)
    sys.stderr = err
    return Streams(
        err=err, out_is_open=was_open[STDOUT], out_is_terminal=os.isatty(STDOUT)
    )


@contextmanager
def only_results_on_stdout(streams: Streams) -> Iterator[None]:
    """Send to stderr what is printed in the block, whoever prints it."""
    before, sys.stdout = sys.stdout, streams.err
    try:
        yield
    finally:
        sys.stdout = before


def write_out(data: bytes) -> None:
    """Write *data* to stdout, all of it.

    Raises:
        ReaderGoneError: nobody reads it.
        RunStoppedError: it cannot be written, as on a full disk.
    """
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(STDOUT, rest) :]
        except BrokenPipeError as exc:
            raise ReaderGoneError from exc
        except OSError as exc:
            raise RunStoppedError(f"stdout cannot be written: {exc.strerror}") from exc


def _hold(number: int) -> bool:
    """Return whether the descriptor *number* is open; open it on nothing if not."""
    try:
        os.fstat(number)
    except OSError as exc:
        if exc.errno != EBADF:
            raise
        nothing = os.open(os.devnull, os.O_RDWR)
        if nothing != number:
            os.dup2(nothing, number)
            os.close(nothing)
        return False
    return True
