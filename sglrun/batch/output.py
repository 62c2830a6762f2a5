"""Outputs: where results go, one line for each row.

``with output:`` around ``for results in runner.batches(output.remaining(rows))``, with
``output.append(results)`` in it and ``output.finish(...)`` after it, is a whole run.
Leaving the block without ``finish`` keeps what is written, for the same run again.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, Self

from sglrun.batch.results import RowResult
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

    def __init__(self, write: Callable[[bytes], None], render: Render) -> None:
        """Write lines with *write*, all that are ready at once."""
        self.resumed = 0
        self._write = write
        self._render = render
        self._written = bytearray()  # one byte for each row

    def remaining(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield all *rows*."""
        for row in rows:
            self._written.append(0)
            yield row

    def append(self, results: Sequence[RowResult]) -> None:
        """Write *results*; what *write* raises is raised."""
        self._write(b"".join(map(self._render, results)))
        for result in results:
            self._written[result.index] += 1

    def finish(self, summary: RunSummary) -> None:
        """Check that each row has one result.

        Raises:
            RunStoppedError: one has not.
        """
        del summary
        index = next((i for i, times in enumerate(self._written) if times != 1), None)
        if index is not None:
            raise RunStoppedError(
                f"row {index} has {self._written[index]} results; each must have one"
            )

    def close(self) -> None:
        """Do nothing; the stream is not ours."""
