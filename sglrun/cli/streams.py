"""The streams of the process: results on stdout, everything else on stderr.

What the author's code, a library of it or a process that it starts prints goes to
stderr, so that nothing but results reaches stdout.
"""

import fcntl
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from errno import EBADF
from typing import TextIO

from sglrun.backends.secrets import Secrets
from sglrun.batch.sources import Source
from sglrun.display.stderr import QuietStream
from sglrun.errors import RunStoppedError, UsageError
from sglrun.interpreter.tracing.tracer import is_traced

STDIN, STDOUT, STDERR = 0, 1, 2
BROKEN_PIPE = 128 + 13
"""What a shell reports for a filter whose reader went away (SIGPIPE)."""


class ReaderGoneError(Exception):
    """Nobody reads stdout any more; not an error of the run."""


def _copy_of_stdout() -> int:
    return os.dup(STDOUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Streams:
    """Where a command reads and writes.

    Attributes:
        err: stderr; writing to it never fails.
        out: a descriptor of stdout that nobody else writes to, for results.
        in_is_open: stdin was open when the process began.
        secrets: texts that are written nowhere; add to them what comes to be known.
        out_is_open: stdout was open when the process began.
        out_is_terminal: results are read by a person.
    """

    err: QuietStream
    out_is_open: bool
    out_is_terminal: bool
    in_is_open: bool = True
    secrets: Secrets = field(default_factory=Secrets)
    out: int = field(default_factory=_copy_of_stdout)

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

    def check_input(self, source: Source, *, results_on_stdout: bool) -> None:
        """Check that *source* is another file than the one that results go to.

        Raises:
            UsageError: it is stdin, which was closed when the process began; or what
                is written to stdout would be read as further rows, without end.
        """
        if source.is_stdin and not self.in_is_open:
            raise UsageError("stdin is closed, so there are no rows to read")
        status = os.fstat(self.out)
        is_same = (status.st_dev, status.st_ino) == source.identity
        if results_on_stdout and is_same and stat.S_ISREG(status.st_mode):
            raise UsageError(
                f"stdout is the input {source.name!r}; send the results to another file"
            )

    def write(self, data: bytes) -> None:
        """Write *data* to stdout, all of it.

        Raises:
            ReaderGoneError: nobody reads it.
            RunStoppedError: it cannot be written, as on a full disk.
        """
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self.out, rest) :]
            except BrokenPipeError as exc:
                raise ReaderGoneError from exc
            except OSError as exc:
                raise RunStoppedError(
                    f"stdout cannot be written: {exc.strerror}"
                ) from exc

    def written_from_here(self) -> Callable[[], Iterator[bytes]] | None:
        """Return what reads the lines that are written to stdout from now on.

        It is ``None`` where stdout is no file, or one that cannot be read.
        """
        name = f"/dev/fd/{self.out}"
        status = os.fstat(self.out)
        if not (stat.S_ISREG(status.st_mode) and os.access(name, os.R_OK)):
            return None
        appends = fcntl.fcntl(self.out, fcntl.F_GETFL) & os.O_APPEND
        start = status.st_size if appends else os.lseek(self.out, 0, os.SEEK_CUR)
        return lambda: _lines_from(name, start)

    def show(self, text: str) -> None:
        """Write *text* to stderr as it is."""
        self.err.write(text)
        self.err.flush()


def _lines_from(name: str, start: int) -> Iterator[bytes]:
    try:
        with open(name, "rb") as file:  # noqa: PTH123 - no path of its own
            file.seek(start)
            yield from file
    except OSError as exc:
        raise RunStoppedError(f"stdout cannot be read back: {exc.strerror}") from exc


def open_streams() -> Streams:
    """Return the process's streams; from here on nothing fails for want of stderr.

    A descriptor that is closed is opened on nothing first: the next file to be opened
    would get its number, and be written to by mistake.
    """
    was_open = [_hold(number) for number in range(3)]
    secrets = Secrets()
    err = QuietStream(
        sys.stderr if was_open[STDERR] else None,
        # What a program says of placeholders would only puzzle; the rows say it, too.
        is_muted=is_traced.get,
        redacted=secrets.redacted,
    )
    sys.stderr = err
    return Streams(
        err=err,
        secrets=secrets,
        out_is_open=was_open[STDOUT],
        out_is_terminal=os.isatty(STDOUT),
        in_is_open=was_open[STDIN],
    )


@contextmanager
def only_results_on_stdout(streams: Streams) -> Iterator[None]:
    """Send to stderr what is printed from here on, whoever prints it.

    That holds for libraries that are not written in Python and for other processes,
    too: the descriptor itself is stderr. It stays so after the block, since what is
    printed while the process ends, as by ``atexit``, is no result either. At the end
    of the block what lies in a buffer is written.
    """
    _flush(sys.__stdout__)
    sys.stdout = streams.err
    os.dup2(STDERR, STDOUT)
    try:
        yield
    finally:
        _flush(sys.__stdout__)
        _flush(sys.stdout)  # which a program may have wrapped


def _flush(stream: TextIO | None) -> None:
    """Write what lies in the buffer of *stream*, to where that leads now."""
    if stream is not None:
        with suppress(OSError, ValueError):
            stream.flush()


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
