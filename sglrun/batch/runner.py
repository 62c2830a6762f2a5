"""The runner: one program over many rows, until the last or until it must stop."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, Self

from sglrun.backends.base import Backend, Usage
from sglrun.batch.plan import Plan
from sglrun.batch.results import Include, RowResult
from sglrun.batch.rows import Row
from sglrun.errors import SglrunError
from sglrun.interpreter.program import Program
from sglrun.lang.sampling import SamplingParams


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOptions:
    """How rows are run.

    Attributes:
        sampling: the run's parameters, under those of each generation.
        num_threads: rows at once; as many as is sensible if ``None``.
        max_in_flight: requests at once, those of forks included; ``num_threads`` if
            ``None``.
        retries: further tries of a request that may succeed.
        order: the order of the results.
        precache: send the shared prefix once, first.
        include: what more each result is to hold.
        max_errors: end the run when more rows than this have failed.
        max_error_share: end the run when more than this share of the rows has failed,
            from 0 to 1; looked at from the 100th row on.
        row_timeout_s: a row begins no request later than this after its start.
        require_stop: a generation that did not end by itself fails its row.
    """

    sampling: SamplingParams = field(default_factory=SamplingParams)
    num_threads: int | None = None
    max_in_flight: int | None = None
    retries: int = 4
    order: Literal["input", "completion"] = "input"
    precache: bool = True
    include: frozenset[Include] = frozenset()
    max_errors: int | None = None
    max_error_share: float | None = None
    row_timeout_s: float | None = None
    require_stop: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """What came of a run.

    Attributes:
        ok: rows that gave a value.
        failed: rows that gave an error.
        usage: what the rows cost, without the shared prefix.
        plan: the shared prefix and what it cost.
        cut: generations that ended by ``length``.
        seconds: from the first row to the last.
        stopped_by: what ended the run before its last row.
    """

    ok: int = 0
    failed: int = 0
    usage: Usage = field(default_factory=Usage)
    plan: Plan = field(default_factory=Plan)
    cut: int = 0
    seconds: float = 0.0
    stopped_by: SglrunError | None = None

    @property
    def rows(self) -> int:
        """Rows that gave a result."""
        return self.ok + self.failed

    @property
    def exit_code(self) -> int:
        """The exit code of a command that did this."""
        if self.stopped_by is not None:
            return self.stopped_by.exit_code
        return 1 if self.failed else 0


class BatchRunner:
    """Runs rows at the same time; iterate over its results once, from one thread."""

    def __init__(
        self,
        program: Program,
        backend: Backend,
        options: BatchOptions | None = None,
        *,
        on_note: Callable[[str], None] | None = None,
    ) -> None:
        """Prepare; nothing runs before the iteration."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        """Return the runner."""
        return self

    def __exit__(self, *exc: object) -> None:
        """Let go of rows in flight."""

    @property
    def in_flight(self) -> int:
        """Rows that are being worked on."""
        raise NotImplementedError

    def batches(self, rows: Iterable[Row]) -> Iterator[tuple[RowResult, ...]]:
        """Run *rows*; yield results as soon as there are any, all that are ready.

        Raises:
            RunStoppedError: the run ended early; raised after the results of the rows
                in flight.
            RunInterruptedError: as given to ``stop``, likewise.
            InputError: the rows cannot be read on, likewise.
        """
        raise NotImplementedError

    def results(self, rows: Iterable[Row]) -> Iterator[RowResult]:
        """Run *rows* as ``batches`` does; yield one result at a time."""
        raise NotImplementedError

    def stop(self, reason: SglrunError, *, grace_s: float | None = None) -> None:
        """Take no more rows; wait *grace_s* for those in flight, then raise *reason*.

        Safe from any thread and from a signal handler. A second call waits no more.
        """
        raise NotImplementedError

    def summary(self) -> RunSummary:
        """Return what came of the run so far."""
        raise NotImplementedError
