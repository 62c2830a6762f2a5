"""Outputs: where results go, one line for each row.

``with output:`` around ``for results in runner.batches(output.remaining(rows))``, with
``output.append(results)`` in it and ``output.finish(...)`` after it, is a whole run.
Leaving the block without ``finish`` keeps what is written, for the same run again.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, Self

from sglrun.batch.results import RowResult
from sglrun.batch.rows import Row
from sglrun.batch.runner import RunSummary


class Output(Protocol):
    """Takes the results of a run.

    Attributes:
        resumed: rows that an earlier run finished, so far.
    """

    resumed: int

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
