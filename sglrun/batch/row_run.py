"""The run of one row: from what it gives a program to what became of it.

Rule: the one place of the batch that catches everything; a row's failure is a result.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from sglrun.backends.base import Backend
from sglrun.batch.limited import LimitedBackend, need_counter
from sglrun.batch.limits import Limits
from sglrun.batch.meter import Meter
from sglrun.batch.prices import Prices
from sglrun.batch.results import (
    ErrorInfo,
    Include,
    RowResult,
    backend_cause,
    error_info,
    row_error_info,
)
from sglrun.batch.rows import Given, Row, given
from sglrun.batch.steps import RowSteps, StepLog
from sglrun.errors import ProgramError, RowError, UnsupportedFeatureError
from sglrun.interpreter.failure import Failure
from sglrun.interpreter.program import Program
from sglrun.interpreter.run import run_program
from sglrun.interpreter.state import ProgramState
from sglrun.lang.sampling import SamplingParams

_REFUSED = 8
"""So many rows that ask what the backend cannot do, and none that is well, are all."""


class RowRun:
    """Runs a program over one row after another; safe from many threads at once."""

    def __init__(
        self,
        program: Program,
        backend: Backend,
        limits: Limits,
        *,
        sampling: SamplingParams,
        include: frozenset[Include] = frozenset(),
        timeout_s: float | None = None,
        require_stop: bool = False,
        approximate: bool = False,
        steps: StepLog | None = None,
        prices: Prices | None = None,
    ) -> None:
        """Take what all rows have in common; see ``BatchOptions``."""
        self._program = program
        self._backend = backend
        self._limits = limits
        self._sampling = sampling
        self._include = include
        self._timeout_s = timeout_s
        self._require_stop = require_stop
        self._approximate = approximate
        self._lock = threading.Lock()
        self._some_ok = False  # under the lock, as the number
        self._num_refused = 0
        self._steps = steps
        self._prices = prices
        self._needs = need_counter(backend, limits.allowance)

    def __call__(self, row: Row) -> RowResult:
        """Run the program over *row*; waits. Never raises for what a row does."""
        if self._steps is None:
            return self._once(row)
        steps = self._steps.begin(row)
        result = self._once(row, steps)
        if steps.asks_nothing and not result.ok:
            # What it was answered before makes it fail, so it is to be asked again.
            steps.forget()
            result = self._once(row, steps)
        steps.end(ok=result.ok)
        return replace(result, serial=steps.serial) if steps.serial else result

    def _once(self, row: Row, steps: RowSteps | None = None) -> RowResult:
        taken = given(row, self._program)
        began, meter = time.perf_counter(), Meter()
        try:
            error = self.refusal(row)
            if error is not None:
                return _refused(row, taken, row_error_info(row, error))
            state = self._run(taken, meter, steps)
            self._end_if_hopeless(state.failure)
            return self._result(row, taken, state, meter, began)
        except Exception as exc:  # noqa: BLE001 - a row's failure is a result
            info = error_info(Failure(cause=exc))
            return _refused(row, taken, info)

    def refusal(self, row: Row) -> RowError | ProgramError | None:
        """Return why *row* cannot be run, if so."""
        program = self._program
        if (error := row.error_for(program)) is not None:
            return error
        try:
            program.check_arguments(filter(program.takes, row.fields))
        except ProgramError as exc:
            return exc
        return None

    def _run(self, taken: Given, meter: Meter, steps: RowSteps | None) -> ProgramState:
        limited = LimitedBackend(
            self._backend.of_row(),
            self._limits,
            meter,
            needs=self._needs,
            timeout_s=self._timeout_s,
            approximate=self._approximate,
            steps=steps,
        )
        return run_program(
            self._program,
            taken.arguments,
            backend=limited,
            sampling=self._sampling,
            inline=True,
        )

    def _end_if_hopeless(self, failure: Failure | None) -> None:
        """End the run where a program met what no row survives, or none so far."""
        cause = None if failure is None else backend_cause(failure.cause)
        with self._lock:
            self._some_ok = self._some_ok or failure is None
            self._num_refused += isinstance(cause, UnsupportedFeatureError)
            no_hope = self._num_refused >= _REFUSED and not self._some_ok
        if cause is not None and (no_hope or (cause.fatal and not cause.retryable)):
            self._limits.fail(cause)

    def _result(
        self, row: Row, taken: Given, state: ProgramState, meter: Meter, began: float
    ) -> RowResult:
        finish_reasons = {
            _key(name): reason for name, reason in state.finish_reasons().items()
        }
        error = None if state.failure is None else error_info(state.failure)
        if error is None and self._require_stop:
            error = _not_ended(finish_reasons)
        return RowResult(
            row=row,
            id=taken.id,
            rest=taken.rest,
            output=_output(state),
            error=error,
            usage=meter.usage,
            replayed=meter.replayed,
            cost=None if self._prices is None else self._prices.cost(meter.usage),
            finish_reasons=finish_reasons,
            seconds=time.perf_counter() - began,
            attempts=meter.attempts,
            approximations=meter.approximations,
            extra={
                name: include(state, taken)
                for name, include in _INCLUDES.items()
                if name in self._include
            },
        )


def _refused(row: Row, taken: Given, error: ErrorInfo) -> RowResult:
    return RowResult(row=row, id=taken.id, rest=taken.rest, error=error, attempts=0)


def _key(name: str | None) -> str:
    """Return what results call a variable; one without a name is ``""``."""
    return "" if name is None else name


def _output(state: ProgramState) -> Mapping[str, object]:
    output = {_key(name): value for name, value in state.variables().items()}
    returned = state.ret_value
    # Many programs end with ``return s``, which says nothing that is not there.
    if returned is not None and not isinstance(returned, ProgramState):
        output["return"] = returned
    return output


def _not_ended(finish_reasons: Mapping[str, str]) -> ErrorInfo | None:
    for name, reason in finish_reasons.items():
        if reason != "stop":
            return ErrorInfo(
                type=RowError.__name__,
                message=f"the generation of {name!r} ended by {reason!r}, not by itself"
                " (--require-stop)",
                variable=name,
            )
    return None


def _messages(state: ProgramState, taken: Given) -> object:
    del taken
    prompt = state.stream_executor.evaluator.prompt
    opened = prompt.open_message
    turns = prompt.messages if opened is None else (*prompt.messages, opened)
    return [turn.as_openai() for turn in turns]


# As far as it went, where a program failed: its state would raise the failure.
_INCLUDES: Mapping[Include, Callable[[ProgramState, Given], object]] = {
    "arguments": lambda _, taken: dict(taken.arguments),
    "text": lambda state, _: state.stream_executor.evaluator.prompt.text,
    "messages": _messages,
    "meta": lambda state, _: {
        _key(name): meta
        for name, meta in state.stream_executor.evaluator.meta_info.items()
    },
}
