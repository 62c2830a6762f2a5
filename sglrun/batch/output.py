"""Outputs: where results go, one line for each row.

``with output:`` around ``for results in runner.batches(rows, remaining=
output.remaining)``, with ``output.append(results)`` in it and ``output.finish(...)``
after it, is a whole run.
Leaving the block without ``finish`` keeps what is written, for the same run again.
"""

import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, Self

from sglrun.batch.records import index_of
from sglrun.batch.results import Layout, RowResult
from sglrun.batch.rows import Row
from sglrun.batch.steps import StepLog
from sglrun.batch.summary import RunSummary
from sglrun.errors import RunStoppedError

Render = Callable[[RowResult], bytes]
"""A result as a line with its end."""


class Output(Protocol):
    """Takes the results of a run.

    Attributes:
        resumed: rows that an earlier run finished, so far.
        steps: keeps the answers of rows that do not end; ``None`` if nothing does.
    """

    resumed: int
    steps: StepLog | None = None

    def remaining(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield those of *rows* that are to be run; keeps count of all."""
        ...

    def append(self, results: Sequence[RowResult]) -> None:
        """Write *results*; on return the kernel has them whole.

        Raises:
            RunStoppedError: they cannot be written; what was written before is kept.
        """
        ...

    def finish(self, summary: RunSummary) -> None:
        """End a run whose rows all have results.

        Raises:
            RunStoppedError: a row has no result, or the results cannot be written.
        """
        ...

    def close(self) -> None:
        """Let go of files; safe to call twice."""
        ...

    def __enter__(self) -> Self:
        """Return the output."""
        return self

    def __exit__(self, *exc: object) -> None:
        """Close."""
        self.close()


class StreamOutput(Output):
    """Writes results to a stream, as stdout; nothing can be resumed."""

    def __init__(
        self,
        write: Callable[[bytes], None],
        render: Render,
        *,
        layout: Layout = "record",
        read_back: Callable[[], Iterator[bytes]] | None = None,
    ) -> None:
        """Write lines with *write*, all that are ready at once.

        Args:
            write: takes bytes, all of them.
            render: makes the line of a result.
            layout: how it does that.
            read_back: returns the lines of the file that were written, perhaps with
                those of others among them; ``None`` where there is no such file.
        """
        self.resumed = 0
        self._write = write
        self._render = render
        self._layout: Layout = layout
        self._read_back = read_back
        self._written = bytearray()  # one byte for each row
        self._checksums = array("I")  # of each row's line

    def remaining(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield all *rows*."""
        for row in rows:
            self._written.append(0)
            self._checksums.append(0)
            yield row

    def append(self, results: Sequence[RowResult]) -> None:
        """Write *results*; what *write* raises is raised.

        Raises:
            RunStoppedError: a result is not one line that is told by its index.
        """
        lines = [self._render(result) for result in results]
        for result, line in zip(results, lines, strict=True):
            if self._index_in(line) != result.index:
                raise RunStoppedError(f"the result of row {result.index} is no line")
        self._write(b"".join(lines))
        for result, line in zip(results, lines, strict=True):
            self._written[result.index] += 1
            self._checksums[result.index] = zlib.crc32(line)

    def finish(self, summary: RunSummary) -> None:
        """Check that each row has one result, in the file itself if there is one.

        Raises:
            RunStoppedError: one has not.
        """
        del summary
        for index, times in enumerate(self._written):
            if times != 1:
                raise RunStoppedError(
                    f"row {index} has {times} results; each must have one"
                )
        if self._read_back is not None:
            self._check_file(self._read_back())

    def close(self) -> None:
        """Do nothing; the stream is not ours."""

    def _check_file(self, lines: Iterable[bytes]) -> None:
        found = bytearray(len(self._written))
        for line in lines:
            index = self._index_in(line)
            if index is not None and index < len(found):
                found[index] |= zlib.crc32(line) == self._checksums[index]
        missing = found.find(0)
        if missing >= 0:
            raise RunStoppedError(
                f"row {missing} was written to stdout and is not in that file"
            )

    def _index_in(self, line: bytes) -> int | None:
        """Return the index in *line*; ``None`` if it is no result, or not one line."""
        whole = line.find(b"\n") == len(line) - 1
        return index_of(line, self._layout) if whole else None
