"""The runner: one program over many rows, until the last or until it must stop."""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Self

from sglrun.backends.base import Backend, Usage
from sglrun.batch.allowance import create_allowance
from sglrun.batch.limited import LimitedBackend, need_counter
from sglrun.batch.limits import Limits
from sglrun.batch.meter import Meter
from sglrun.batch.options import BatchOptions
from sglrun.batch.plan import Plan, create_plan
from sglrun.batch.results import RowResult
from sglrun.batch.retries import RetryPolicy
from sglrun.batch.row_run import RowRun
from sglrun.batch.rows import Row, given
from sglrun.batch.schedule import Schedule, prompt_key
from sglrun.batch.steps import StepLog
from sglrun.batch.summary import RunSummary, Tally
from sglrun.errors import (
    InputError,
    RunInterruptedError,
    RunStoppedError,
    SglrunError,
)
from sglrun.interpreter.fan_out import FanOut, auto_num_threads
from sglrun.interpreter.program import Program


@dataclass(frozen=True, slots=True)
class _Stop:
    reason: SglrunError
    grace_s: float | None


class BatchRunner:
    """Runs rows at the same time; iterate over its results once, from one thread."""

    def __init__(
        self,
        program: Program,
        backend: Backend,
        options: BatchOptions | None = None,
        *,
        on_note: Callable[[str], None] | None = None,
        on_results: Callable[[Sequence[RowResult]], None] | None = None,
        limits: Limits | None = None,
        steps: StepLog | None = None,
        spent: Usage | None = None,
    ) -> None:
        """Prepare; nothing runs before the iteration.

        Args:
            program: what to run.
            backend: the model side.
            options: how to run it.
            on_note: told what a user should know, from any thread.
            on_results: told of results when they are there, by the thread that
                iterates, before they wait for those that are to come before them.
            limits: those of the requests; made from *options* if not given.
            steps: keeps the answers of rows that do not end.
            spent: what earlier runs took of the budgets.
        """
        options = options or BatchOptions()
        self._program = program
        self._backend = backend
        self._options = options
        self._on_note = on_note or (lambda _: None)
        self._on_results = on_results or (lambda _: None)
        self._num_threads = options.num_threads or auto_num_threads()
        self._limits = limits or Limits(
            max_in_flight=options.max_in_flight or self._num_threads,
            policy=RetryPolicy(retries=options.retries),
            allowance=create_allowance(
                requests_per_minute=options.requests_per_minute,
                tokens_per_minute=options.tokens_per_minute,
                max_total_tokens=options.max_total_tokens,
                max_cost=options.max_cost,
                prices=options.prices,
                spent=spent or Usage(),
            ),
            patience_s=options.patience_s,
            on_note=self._on_note,
        )
        self._run = RowRun(
            program,
            backend,
            self._limits,
            sampling=options.sampling,
            prices=options.prices,
            include=options.include,
            timeout_s=options.row_timeout_s,
            require_stop=options.require_stop,
            approximate=options.approximate,
            steps=steps,
        )
        self._fan_out: FanOut[Row, RowResult] | None = None
        self._stops: SimpleQueue[_Stop | None] = SimpleQueue()
        self._tally = Tally()
        self._plan = Plan()
        self._planned_by: tuple[str, ...] | None = None
        self._lock = threading.Lock()
        self._working = 0  # under the lock
        self._stopped_by: SglrunError | None = None  # under the lock; the first

    def __enter__(self) -> Self:
        """Return the runner."""
        return self

    def __exit__(self, *exc: object) -> None:
        """Close."""
        self.close()

    def close(self) -> None:
        """Let go of rows in flight; waits for nothing."""
        self._limits.fail(self._stopped_by or RunStoppedError("the run is over"))
        if self._fan_out is not None:
            self._fan_out.abandon()
        self._stops.put(None)

    @property
    def in_flight(self) -> int:
        """Rows that are being worked on."""
        return self._working

    @property
    def waiting(self) -> str:
        """What all requests wait for, in words; empty if they do not."""
        return self._limits.waiting

    def results(self, rows: Iterable[Row]) -> Iterator[RowResult]:
        """Run *rows* as ``batches`` does; yield one result at a time."""
        for batch in self.batches(rows):
            yield from batch

    def batches(
        self,
        rows: Iterable[Row],
        *,
        remaining: Callable[[Iterable[Row]], Iterable[Row]] = iter,
    ) -> Iterator[tuple[RowResult, ...]]:
        """Run *rows*; yield results as soon as there are any, all that are ready.

        Args:
            rows: all of the input.
            remaining: leaves out those that are finished. The run is planned by the
                first of all, so that a resumed one is planned as one in one go.

        Raises:
            RunStoppedError: the run ended early, or the rows cannot be read on; raised
                after the results of the rows before.
            RunInterruptedError: as given to ``stop``, likewise.
            InputError: there are no rows that can be read.
        """
        planned = self._planned(remaining(self._seen(rows)))
        schedule = self._schedule(planned)
        self._fan_out = FanOut(
            self._work,
            planned if schedule is None else schedule,
            num_threads=self._num_threads,
            ordered=self._options.order == "input",
        )
        watcher = threading.Thread(
            target=self._watch, args=(self._fan_out,), name="sglrun-stop", daemon=True
        )
        watcher.start()
        try:
            for batch in self._in_order(self._counted(self._fan_out), schedule):
                yield tuple(batch)
        finally:
            self._tally.end()
            self._stops.put(None)
        if self._stopped_by is not None:
            raise self._stopped_by

    def stop(self, reason: SglrunError, *, grace_s: float | None = None) -> None:
        """Take no more rows; wait *grace_s* for those in flight, then raise *reason*.

        Results that waited for a row which is left come first, in order, with a gap.
        Safe from any thread and from a signal handler. A second call waits no more.
        """
        self._stops.put(_Stop(reason, grace_s))

    def summary(self) -> RunSummary:
        """Return what came of the run so far."""
        return self._tally.summary(
            plan=self._plan,
            stopped_by=self._stopped_by,
            prices=self._options.prices,
            lost=self._limits.allowance.unknown,
        )

    def _seen(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield *rows*, noting what the first that can be run gives."""
        for row in rows:
            if self._planned_by is None and self._run.refusal(row) is None:
                self._planned_by = tuple(given(row, self._program).arguments)
            yield row

    def _planned(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield *rows*, planning the run before the first that can be run.

        The threads that run rows take them one at a time, so that none begins before.
        """
        planned = False
        try:
            for row in rows:
                if not planned and self._run.refusal(row) is None:
                    planned = True
                    if not self._can_begin():
                        return
                yield row
        except InputError as exc:
            if exc.line in {None, 1}:
                raise
            # For who takes rows they end here: those before are run to their end.
            with self._lock:
                self._stopped_by = self._stopped_by or _broken_off(exc)

    def _can_begin(self) -> bool:
        """Plan the run; return whether there is anything to run."""
        try:
            self._plan = self._create_plan()
        except (RunStoppedError, RunInterruptedError) as exc:
            self._end(exc)
            return False
        if self._plan.refused is not None:
            self._end(_stopped(self._plan.refused))
            return False
        return True

    def _create_plan(self) -> Plan:
        options = self._options
        needs = need_counter(self._backend, self._limits.allowance)
        return create_plan(
            self._program,
            LimitedBackend(self._backend, self._limits, Meter(), needs=needs),
            given=self._planned_by or (),
            on_note=self._on_note,
            sampling=options.sampling,
            approximate=options.approximate,
            trace=options.precache or options.schedule == "prefix",
            send=options.precache,
        )

    def _schedule(self, rows: Iterable[Row]) -> Schedule | None:
        if self._options.schedule == "input":
            return None
        return Schedule(
            rows,
            prompt_key(self._program, lambda: self._plan.known),
            restores=self._options.order == "input",
        )

    def _counted(self, fan_out: FanOut[Row, RowResult]) -> Iterator[list[RowResult]]:
        for batch in fan_out.batches():
            for result in batch:
                self._tally.add(result)
            self._on_results(batch)
            self._check_errors()
            yield batch

    def _in_order(
        self, batches: Iterator[list[RowResult]], schedule: Schedule | None
    ) -> Iterator[list[RowResult]]:
        if schedule is None or self._options.order == "completion":
            return batches
        return schedule.restored(batches)

    def _work(self, row: Row) -> RowResult:
        with self._lock:
            self._working += 1
        try:
            return self._run(row)
        finally:
            with self._lock:
                self._working -= 1
            if self._limits.failure is not None:
                self._end(_stopped(self._limits.failure))

    def _check_errors(self) -> None:
        """End the run if more rows failed than its options allow."""
        failed, rows = self._tally.failed, self._tally.rows
        most, share = self._options.max_errors, self._options.max_error_share
        if most is not None and failed > most:
            self._end(
                RunStoppedError(f"too many rows failed: {failed} (--max-errors {most})")
            )
        if share is not None and rows >= _FEWEST and failed > share * rows:
            self._end(
                RunStoppedError(
                    f"{failed} of {rows} rows failed (--max-errors {share:.0%})"
                )
            )

    def _end(self, reason: SglrunError) -> None:
        """Take no more rows."""
        with self._lock:
            self._stopped_by = self._stopped_by or reason
        if self._fan_out is not None:
            self._fan_out.stop()

    def _watch(self, fan_out: FanOut[Row, RowResult]) -> None:
        """Do what ``stop`` asks, which a signal handler must not do itself."""
        stop = self._stops.get()
        if stop is None:
            return
        self._end(stop.reason)
        self._limits.drain()
        try:
            second = self._stops.get(timeout=stop.grace_s)
        except Empty:
            second = stop
        if second is not None:
            # First this: no row that fails by it has a result.
            fan_out.abandon()
            self._limits.fail(stop.reason)


_FEWEST = 100
"""Rows after which the share of failures is looked at."""


def _broken_off(error: InputError) -> SglrunError:
    stopped = RunStoppedError(
        f"{error}; the rows before are done, mend the input and give the same command "
        "again for the others"
    )
    stopped.__cause__ = error
    return stopped


def _stopped(error: SglrunError) -> SglrunError:
    if isinstance(error, RunStoppedError):
        return error
    stopped = RunStoppedError(f"the run ends, as no row can succeed: {error}")
    stopped.__cause__ = error
    return stopped
