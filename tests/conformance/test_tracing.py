"""Rows 96 to 99 and 101: the shared prefix."""

import threading

import pytest

import sglrun as sgl
from sglrun.backends.base import Backend
from sglrun.interpreter.tracing.tracer import trace_prefix
from sglrun.lang.chat_template import DEFAULT_TEMPLATE
from tests.stand_in import StandIn, status

WAIT_S = 10.0
LONG = "Every row begins with this sentence, which is long enough to be sent once."


def prefills(stand_in: StandIn) -> list[str]:
    """Return the texts that were sent only to be read."""
    return [
        sent["text"]
        for sent in stand_in.generations
        if sent["sampling_params"]["max_new_tokens"] == 0
    ]


def test_row_096_precache(backend: Backend, stand_in: StandIn) -> None:
    """A constant prefix of more than 64 characters is sent once, before the rows.

    It is on by default, unlike in the table: what it saves is measured, tracing stops
    no run, and a program that is traced reaches no model.
    """
    calls = []

    @sgl.function
    def program(s: sgl.ProgramState, q: str) -> None:
        calls.append(q)
        s += LONG + q + sgl.gen("a")

    states = list(program.run_batch([("1",), ("2",)], backend=backend))

    assert [state["a"] for state in states] == [" OUT", " OUT"]
    assert prefills(stand_in) == [LONG]
    assert stand_in.generations[0]["text"] == LONG
    assert len(calls) == 3


def test_row_097_precache_key_error(backend: Backend, stand_in: StandIn) -> None:
    """A lookup by an argument ends the tracing, not the batch."""

    @sgl.function
    def program(s: sgl.ProgramState, q: str) -> None:
        s += LONG + {"1": "a", "2": "b"}[q] + sgl.gen("a")

    states = list(program.run_batch([("1",), ("2",)], backend=backend))

    assert [state["a"] for state in states] == [" OUT", " OUT"]
    assert len(stand_in.generations) == 2 + len(prefills(stand_in))


def test_row_098_precache_request_fails(backend: Backend, stand_in: StandIn) -> None:
    """A prefix that the server refuses is said, and the rows run."""
    stand_in.fail(status(400), path="/generate")

    @sgl.function
    def program(s: sgl.ProgramState, q: str) -> None:
        s += LONG + q + sgl.gen("a")

    with pytest.warns(UserWarning, match="the shared prefix is not cached"):
        states = list(program.run_batch([("1",), ("2",)], backend=backend))

    assert [state["a"] for state in states] == [" OUT", " OUT"]


def test_row_099_prefix_with_bind() -> None:
    """A bound argument is part of the prefix."""

    @sgl.function
    def program(s: sgl.ProgramState, q: str) -> None:
        s += "A "
        s += "B " + q + " C"
        s += sgl.gen("a")

    bound = trace_prefix(program.bind(q="bound"), template=DEFAULT_TEMPLATE)
    free = trace_prefix(program, template=DEFAULT_TEMPLATE)

    assert bound.prompt.text == "A B bound C"
    assert free.prompt.text == "A B "


def test_row_101_tracing_leak(backend: Backend) -> None:
    """While one thread traces, a program that another one calls runs as ever."""
    tracing, go = threading.Event(), threading.Event()

    @sgl.function
    def slow(s: sgl.ProgramState, q: str) -> None:
        s += "prefix"
        tracing.set()
        go.wait(WAIT_S)
        s += q + sgl.gen("a")

    @sgl.function
    def other(s: sgl.ProgramState) -> None:
        s += "x" + sgl.gen("a")

    tracer = threading.Thread(
        target=lambda: trace_prefix(slow, template=DEFAULT_TEMPLATE)
    )
    tracer.start()
    assert tracing.wait(WAIT_S)
    state = other(backend=backend)
    value = state["a"]
    go.set()
    tracer.join(WAIT_S)

    assert value == " OUT"
