"""Outcomes: what a program returns or assigns, however it is nested."""

import json
from collections.abc import Callable
from typing import Any

import pytest

import sglrun as sgl
from sglrun.errors import ProgramError
from sglrun.interpreter.compiling.compiler import compile_program
from sglrun.interpreter.tracing.marks import Marks
from sglrun.interpreter.tracing.node_json import graph_json
from sglrun.interpreter.tracing.outcome import (
    Known,
    Listed,
    Mapped,
    Opaque,
    opaque_in,
    outcome_of,
)
from sglrun.interpreter.tracing.tracer import trace_program
from sglrun.lang.chat_template import DEFAULT_TEMPLATE


def own_list() -> Any:
    held: list[Any] = []
    held.append(held)
    return held


def own_dict() -> Any:
    held: dict[str, Any] = {}
    held["a"] = [(held,)]
    return held


def deep() -> Any:
    held: list[Any] = []
    for _ in range(100_000):
        held = [held]
    return held


def shared() -> Any:
    held: list[Any] = []
    for _ in range(40):
        held = [held, held]
    return held


STRANGE: dict[str, Callable[[], Any]] = {
    "a list that holds itself": own_list,
    "a dict that holds itself": own_dict,
    "a list in 50 others": deep,
    "list of more than 20,000 parts": shared,
}


@pytest.mark.parametrize("words", STRANGE)
def test_a_trace_ends_whatever_is_returned(words: str) -> None:
    """A value that no row has trouble with is opaque where it has no end."""

    def body(s: Any, q: str) -> Any:
        s += q + sgl.gen("a")
        made = STRANGE[words]()
        s["v"] = made
        return made

    program = sgl.function(body)
    trace = trace_program(program, template=DEFAULT_TEMPLATE)
    (assigned,) = trace.graph.of_kind("assign")

    assert list(opaque_in(trace.returned)) == [words]
    assert assigned.value == trace.returned
    assert words in json.dumps(graph_json(trace.graph))
    with pytest.raises(ProgramError, match=words):
        compile_program(program)


@pytest.mark.parametrize("words", STRANGE)
def test_a_default_may_be_anything(words: str) -> None:
    """A default that is no data is refused by name, not with a recursion."""

    def body(s: Any, q: str, x: Any = None) -> None:
        s += q + sgl.gen("a")

    body.__defaults__ = (STRANGE[words](),)

    with pytest.raises(ProgramError, match=f"'x' is {words}"):
        compile_program(sgl.function(body))


def test_a_value_that_stands_twice_does_not_hold_itself() -> None:
    """What two others hold, next to each other, is data like any other."""
    held = ["a"]

    listed = Listed((Known("a"),))
    assert outcome_of([held, {"b": held}, held], Marks()) == Listed(
        (listed, Mapped((("b", listed),)), listed)
    )
    assert outcome_of({1: held}, Marks()) == Opaque("a dictionary")
