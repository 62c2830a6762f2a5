"""Rows 47 to 59: turns, messages and scopes."""

from collections.abc import Callable
from contextlib import suppress

import pytest

import sglrun as sgl
from sglrun.backends.base import Backend, BackendOptions
from sglrun.backends.sglang import create
from sglrun.errors import ProgramError, ScopeError
from tests.stand_in import StandIn

Body = Callable[[sgl.ProgramState], None]


def ran(backend: Backend, body: Body) -> sgl.ProgramState:
    """Return the state of a program with this body, once it is complete."""
    state: sgl.ProgramState = sgl.function(body).run(backend=backend)
    state.sync()
    return state


def with_template(stand_in: StandIn, name: str, body: Body) -> sgl.ProgramState:
    """Return the same with a named template."""
    options = BackendOptions(url=stand_in.url, chat_template=name)
    with create(options) as backend:
        return ran(backend, body)


def contents(state: sgl.ProgramState) -> list[tuple[object, object]]:
    return [(each["role"], each["content"]) for each in state.messages()]


def test_row_047_default_system(stand_in: StandIn) -> None:
    """A template's own system prompt is in the text and in the messages."""

    def body(s: sgl.ProgramState) -> None:
        s.user("hi")

    state = with_template(stand_in, "qwen", body)

    assert contents(state) == [
        ("system", "You are a helpful assistant."),
        ("user", "hi"),
    ]
    assert state.text().startswith("<|im_start|>system\nYou are a helpful assistant.")


def test_row_048_strip_in_messages(backend: Backend) -> None:
    """A message loses its leading space, the text and the variable keep theirs."""

    def body(s: sgl.ProgramState) -> None:
        s += sgl.assistant("  lead " + sgl.gen("a"))

    state = ran(backend, body)

    assert contents(state) == [("assistant", "lead  OUT")]
    assert state["a"] == " OUT"
    assert state.text() == "ASSISTANT:  lead  OUT\n"


def test_row_049_nested_role(backend: Backend) -> None:
    """A role inside a role raises at its line."""

    def body(s: sgl.ProgramState) -> None:
        s += sgl.user("x" + sgl.assistant("y"))

    with pytest.raises(ProgramError, match="'assistant' begins inside 'user'"):
        ran(backend, body)


def test_row_050_raise_inside_a_role(backend: Backend) -> None:
    """A turn that an exception leaves is closed, and the next can begin."""

    def body(s: sgl.ProgramState) -> None:
        with suppress(LookupError), s.user():
            s += "half"
            raise LookupError
        s += sgl.assistant("next")

    assert contents(ran(backend, body)) == [("user", "half"), ("assistant", "next")]


def test_row_051_added_twice(backend: Backend) -> None:
    """``s += s.system(...)`` adds the turn once."""

    def body(s: sgl.ProgramState) -> None:
        s += s.system("S")
        s += s.user("U")

    assert contents(ran(backend, body)) == [("system", "S"), ("user", "U")]


def test_row_052_empty_role(backend: Backend) -> None:
    """A turn without text is an empty message."""

    def body(s: sgl.ProgramState) -> None:
        s += sgl.user()

    assert contents(ran(backend, body)) == [("user", "")]


def test_row_053_dangling_role(backend: Backend) -> None:
    """A turn that is left open is said, and is among the messages as it stands."""

    def body(s: sgl.ProgramState) -> None:
        s += sgl.user_begin() + "half"

    with pytest.warns(UserWarning, match="ends inside 'user'"):
        state = ran(backend, body)

    assert contents(state) == [("user", "half")]
    assert state.text() == "USER:half"


def test_row_054_end_without_begin(backend: Backend) -> None:
    """An end without its beginning raises at its line."""

    def body(s: sgl.ProgramState) -> None:
        s += sgl.assistant_end()

    with pytest.raises(ProgramError, match="'assistant' ends but no role is open"):
        ran(backend, body)


def test_row_055_llama_2_turns(stand_in: StandIn) -> None:
    """The first user turn shares the opening marker, the second has its own."""

    def body(s: sgl.ProgramState) -> None:
        s += sgl.system("S") + sgl.user("1") + sgl.assistant("a")
        s += sgl.user("2") + sgl.assistant(sgl.gen("b"))

    assert with_template(stand_in, "llama-2-chat", body).text() == (
        "[INST] <<SYS>>\nS\n<</SYS>>\n\n1 [/INST]a </s><s>[INST] 2 [/INST] OUT </s><s>"
    )


def test_row_056_llama_2_two_users_first(stand_in: StandIn) -> None:
    """Two user turns in a row have a marker each."""

    def body(s: sgl.ProgramState) -> None:
        s += sgl.user("1") + sgl.user("2") + sgl.assistant("a")

    assert with_template(stand_in, "llama-2-chat", body).text() == (
        "[INST] 1 [/INST][INST] 2 [/INST]a </s><s>"
    )


def test_row_057_two_gens_in_one_role(backend: Backend) -> None:
    """Two generations of one turn are one message."""

    def body(s: sgl.ProgramState) -> None:
        s += sgl.assistant(sgl.gen("a") + sgl.gen("b"))

    assert contents(ran(backend, body)) == [("assistant", "OUT OUT")]


def test_row_058_var_scope(backend: Backend) -> None:
    """A scope's variable is all that was said inside."""

    def body(s: sgl.ProgramState) -> None:
        with s.var_scope("v"):
            s += "abc" + sgl.gen("a") + "z"

    assert ran(backend, body)["v"] == "abc OUTz"


def test_row_059_read_inside_var_scope(backend: Backend) -> None:
    """Reading a scope inside it raises and does not wait."""

    def body(s: sgl.ProgramState) -> None:
        with s.var_scope("v"):
            s += s["v"]

    with pytest.raises(ScopeError, match="'v' is read inside its own var_scope"):
        ran(backend, body)
