"""Plain calls: what a source says in the open."""

from typing import Any

import sglrun as sgl
from sglrun.interpreter.tracing.plain_calls import plain_calls

SCHEMA = {"type": "object"}
NOTHING = None


def features(func: Any) -> list[str]:
    """Return what *func* certainly asks for, in order."""
    return [call.feature for call in plain_calls(sgl.function(func)) if call.is_sure]


def doubtful(func: Any) -> list[str]:
    """Return what *func* may ask for besides, in order."""
    calls = plain_calls(sgl.function(func))
    return [call.feature for call in calls if not call.is_sure]


def test_every_shape_is_told() -> None:
    """Each call of the language is told by what it needs, with its line."""

    def program(s: sgl.ProgramState, q: str) -> None:
        s += sgl.image(q) + sgl.gen("a", dtype=int)
        s += sgl.gen("b", json_schema=SCHEMA)
        s += sgl.gen("c", ebnf=f"root ::= {q}")
        s += sgl.select("d", ["x", "y"]) + sgl.gen("e", choices=["x"])

    calls = list(plain_calls(sgl.function(program)))

    assert [call.feature for call in calls] == [
        "images",
        "regex",
        "json_schema",
        "ebnf",
        "select",
        "select",
    ]
    assert {call.where.partition(":")[0] for call in calls} == {"test_plain_calls.py"}
    assert calls[0].where < calls[2].where


def test_what_may_not_be_is_not_sure() -> None:
    """A value or a name of the author's says nothing; a branch and a loop may."""

    def program(s: sgl.ProgramState, q: str, items: list[str]) -> None:
        gen = str
        s += gen("a") + sgl.gen("b", regex=NOTHING) + sgl.gen("c", regex=q)
        for _ in items:
            s += sgl.gen("d", regex="x")
        s += sgl.user(q) if items else sgl.select("e", ["x"])

    assert features(program) == []
    assert doubtful(program) == ["regex", "select"]


def test_nothing_after_a_way_out_is_sure() -> None:
    """Where a row may leave, what follows is left to the rows."""

    def program(s: sgl.ProgramState, q: str) -> Any:
        with s.user():
            s += sgl.gen("a", regex="x")
            if q:
                return s
        s += sgl.select("b", ["x"])
        return s

    assert features(program) == ["regex"]
    assert doubtful(program) == ["select"]


@sgl.function
def inner(s: sgl.ProgramState, q: str) -> None:
    s += q + sgl.gen("a", json_schema=SCHEMA)


def turn(s: sgl.ProgramState) -> None:
    s += sgl.select("b", ["x"])


def test_what_is_called_is_read() -> None:
    """A function and a program that it calls are read where they stand, each once."""

    def program(s: sgl.ProgramState, q: str) -> None:
        turn(s)
        inner.run(q=q)
        inner(q)
        for _ in range(2):
            s += sgl.gen("c", regex="x")
        if q:
            turn(s)

    assert features(program) == ["select", "json_schema", "regex"]
    assert doubtful(program) == []


OTHER = None


def test_a_call_on_another_backend_says_nothing() -> None:
    """What a program asks of a backend of its own is not asked of this one."""

    def program(s: sgl.ProgramState, q: str) -> None:
        inner(q, backend=OTHER)

    assert features(program) == []


def test_what_is_caught_is_not_sure() -> None:
    """An author who catches a refusal goes on without."""

    def program(s: sgl.ProgramState, q: str) -> None:
        try:
            s += q + sgl.gen("a", regex="x")
        except ValueError:
            s += sgl.select("b", ["x"])

    assert features(program) == []
    assert doubtful(program) == ["regex", "select"]


def test_a_program_without_a_source_tells_nothing() -> None:
    """A function that was made from text has no lines to read."""
    made: dict[str, Any] = {}
    exec("def program(s): s += sgl.gen('a', regex='x')", {"sgl": sgl}, made)  # noqa: S102

    assert features(made["program"]) == []
