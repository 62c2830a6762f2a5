"""Made-up programs: what is said of them before they run holds when they run.

For more of them set ``SGLRUN_STRESS=2000``.
"""

import copy
import logging
import os
import random
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings

from sglrun.backends.base import Completion, OnText, Request, Selection, SelectRequest
from sglrun.backends.mock import MockBackend
from sglrun.errors import ProgramError
from sglrun.interpreter.compiling.compiler import CompiledProgram, compile_program
from sglrun.interpreter.compiling.plan import Plan
from sglrun.interpreter.function import Function
from sglrun.interpreter.run import run_program
from sglrun.interpreter.state import ProgramState
from sglrun.interpreter.tracing.node_json import graph_json
from sglrun.interpreter.tracing.tracer import trace_prefix, trace_program
from sglrun.lang.chat_template import DEFAULT_TEMPLATE
from tests.interpreter.made_up import ROWS, load, sources

NUM_PROGRAMS = int(os.environ.get("SGLRUN_STRESS", "30"))
made_up = settings(
    max_examples=NUM_PROGRAMS, suppress_health_check=list(HealthCheck), deadline=None
)
Row = dict[str, Any]


@pytest.fixture(autouse=True, scope="module")
def hasty() -> Iterator[None]:
    """Programs neither sleep nor wait for a person."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "sleep", lambda _: None)
        patch.setattr("builtins.input", lambda *_: "typed")
        patch.setattr("builtins.print", lambda *_: None)
        yield


class AnsweringBackend(MockBackend):
    """A mock whose answers tell of what they were asked, nothing more.

    Attributes:
        prompts: what it is asked after, in order of arrival.
    """

    def __init__(self) -> None:
        super().__init__(
            lambda request: f"<{len(request.prompt.text)}{request.prompt.text[-3:]}>"
        )
        self.prompts: list[str] = []

    def generate(self, request: Request, on_text: OnText | None = None) -> Completion:
        """Keep the prompt, then answer."""
        self.prompts.append(request.prompt.text)
        return super().generate(request, on_text)

    def select(self, request: SelectRequest) -> Selection:
        """Keep the prompt, then choose."""
        self.prompts.append(request.prompt.text)
        return super().select(request)


def run(program: Function, row: Row) -> tuple[ProgramState, AnsweringBackend]:
    """Run *program*, which no row has run before, and return what it was asked."""
    backend = AnsweringBackend()
    with warnings.catch_warnings(action="ignore"):
        state = run_program(program, copy.deepcopy(row), backend=backend, inline=True)
    return state, backend


def asked(backend: MockBackend) -> Counter[str]:
    """Return what *backend* was asked, a request of several samples as several."""
    found: Counter[str] = Counter()
    for request in backend.requests:
        own = request.sampling.given()
        found[f"{request.prompt.text} {own | {'n': 1}}"] += own["n"]
    found.update(f"{each.prompt.text} {each.choices}" for each in backend.selections)
    return found


def seen(state: ProgramState) -> dict[str, object]:
    """Return all that an author can see of a finished program."""
    returned = state.ret_value
    return {
        "variables": list(state.variables().items()),
        "text": state.text(),
        "messages": state.messages(),
        "finish_reasons": state.finish_reasons(),
        "returned": "state" if isinstance(returned, ProgramState) else returned,
    }


@made_up
@given(sources(), ROWS)
def test_the_prefix_is_a_prefix_of_every_row(source: str, rows: list[Row]) -> None:
    """The first prompt of each row begins with what the trace says it begins with."""
    names = {name for row in rows for name in row}
    prefix = trace_prefix(load(source), template=DEFAULT_TEMPLATE, given=names)
    event(f"ended by {prefix.ended_by.partition(' argument')[0][:24]}")
    for row in rows:
        _, backend = run(load(source), row)

        assert all(
            prompt.startswith(prefix.prompt.text) for prompt in backend.prompts[:1]
        ), (prefix.ended_by, prefix.where)


@made_up
@given(sources(), ROWS)
def test_a_plan_does_what_its_program_does(source: str, rows: list[Row]) -> None:
    """What is compiled, and read back from JSON, gives what the program gives."""
    program = load(source)
    plan, refusal = None, ""
    try:
        plan = compile_program(program).plan
    except ProgramError as exc:
        refusal = str(exc)
    if plan is None:
        event("refused")
        assert refusal.startswith(f"{program.path.name}:")
        return
    event("compiled")
    back = Plan.from_json(plan.to_json())

    assert back == plan
    for row in rows:
        state, backend = run(load(source), row)
        planned = AnsweringBackend()
        replayed = CompiledProgram(plan=back).run(copy.deepcopy(row), backend=planned)

        if state.failure is None:
            assert replayed.failure is None, replayed.failure
            assert seen(replayed) == seen(state)
            assert asked(planned) == asked(backend)
        else:
            assert replayed.failure is not None, state.failure
            assert type(replayed.failure.cause) is type(state.failure.cause)


def around(program: Function) -> list[object]:
    """Return what *program* could change, and is not to."""
    names = ("TABLE", "NAMES", "EXAMPLES", "COUNTER", "SEEN", "CALLS")
    held = inspected(program)
    return [
        {name: repr(held[name]) for name in names},
        held["cached"].cache_info(),
        dict(os.environ),
        os.getcwd(),  # noqa: PTH109
        set(sys.modules),
        random.getstate(),
        (logging.root.level, list(logging.root.handlers)),
        list(warnings.filters),
        threading.active_count(),
    ]


def inspected(program: Function) -> dict[str, Any]:
    """Return the globals of *program*."""
    return program.func.__globals__


@made_up
@given(sources())
def test_tracing_leaves_everything_as_it_was(source: str) -> None:
    """Globals, environment, modules, chance, log and threads are not touched."""
    program = load(source)
    before = around(program)
    trace = trace_program(program, template=DEFAULT_TEMPLATE)
    prefix = trace_prefix(program, template=DEFAULT_TEMPLATE)

    assert around(program) == before
    assert trace.prefix == prefix
    assert all(start < end for start, end, _ in trace.graph.edges())
    assert graph_json(trace.graph)
