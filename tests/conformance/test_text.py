"""Rows 1 to 14: text, generations and variables."""

import threading

import pytest

import sglrun as sgl
from sglrun.backends.base import Backend
from sglrun.interpreter.global_config import global_config
from tests.stand_in import StandIn
from tests.stand_in_model import Json

WAIT_S = 10.0


@sgl.function
def qa(s: sgl.ProgramState, q: str) -> str:
    """Ask one question."""
    s += "Q: " + q + "\nA:" + sgl.gen("a", stop="\n")
    return q * 2


@sgl.function
def bare(s: sgl.ProgramState) -> None:
    """Say nothing."""


def test_row_001_text_and_gen(backend: Backend, stand_in: StandIn) -> None:
    """Text is sent as it is, the answer is stored, and the stop string is sent."""
    state = qa.run("hi", backend=backend)

    assert (state.text(), state["a"]) == ("Q: hi\nA: OUT", " OUT")
    (sent,) = stand_in.generations
    assert sent["text"] == "Q: hi\nA:"
    assert sent["sampling_params"]["stop"] == ["\n"]
    assert sent["sampling_params"]["max_new_tokens"] == 128


def test_row_002_unnamed_gen(backend: Backend) -> None:
    """A generation without a name is stored under ``None``."""
    state = bare.run(backend=backend)
    state += "x" + sgl.gen()

    assert state[None] == " OUT"


def test_row_003_expressions_flatten() -> None:
    """Expressions that are joined are one list of four."""
    expr = sgl.gen("x") + "a" + (sgl.gen("y") + "b")

    assert len(expr.pieces) == 4


def test_row_004_bad_operand() -> None:
    """Joining a number is a type error that says what can be joined."""
    with pytest.raises(TypeError, match=r"cannot append 5 \(int\)"):
        _ = sgl.gen("x") + 5


def test_row_005_append_none(backend: Backend) -> None:
    """Appending ``None`` raises at once."""
    state = bare.run(backend=backend)

    with pytest.raises(ValueError, match="None"):
        state += None


def test_row_006_append_int(backend: Backend) -> None:
    """Appending a number raises at its line."""
    state = bare.run(backend=backend)

    with pytest.raises(TypeError, match="cannot append 5"):
        state += 5


def test_row_007_undefined_read(backend: Backend) -> None:
    """Reading what nothing assigns is a ``KeyError`` that lists the variables."""
    state = qa.run("hi", backend=backend)

    with pytest.raises(KeyError, match=r"no variable 'nope' \(variables: 'a'\)"):
        state["nope"]


def slow(stand_in: StandIn) -> threading.Event:
    """Let the server answer only once the event that is returned is set."""
    go = threading.Event()

    def answer(_: str, __: Json) -> str:
        assert go.wait(WAIT_S)
        return " OUT"

    stand_in.model.answer = answer
    return go


def test_row_008_asynchronous_run(backend: Backend, stand_in: StandIn) -> None:
    """A run is back before the server answers; reading the text waits."""
    go = slow(stand_in)
    state = qa.run("hi", backend=backend)
    reading: list[str] = []
    reader = threading.Thread(target=lambda: reading.append(state.text()))
    reader.start()
    before = list(reading)
    go.set()
    reader.join(WAIT_S)

    assert (before, reading) == ([], ["Q: hi\nA: OUT"])


def test_row_009_membership(backend: Backend, stand_in: StandIn) -> None:
    """A variable is in the state once it has its value; the test does not wait."""
    go = slow(stand_in)
    state = qa.run("hi", backend=backend)
    early = "a" in state
    go.set()
    state.sync()

    assert not early
    assert "a" in state


def test_row_010_set_var_then_read(backend: Backend) -> None:
    """A value that the author sets can be read at once and has no meta info."""
    state = bare.run(backend=backend)
    state["k"] = 5
    state += str(state["k"])

    assert state.text() == "5"
    assert state.get_meta_info("k") is None


def test_row_011_gen_overwrites_set_var(backend: Backend) -> None:
    """A generation gives a variable that was set its new value.

    Unlike in the table a text stands before it: servers refuse an empty prompt.
    """
    state = bare.run(backend=backend)
    state.set_var("a", "o")
    state += "p" + sgl.gen("a")

    assert state["a"] == " OUT"


def test_row_012_name_reused(backend: Backend, stand_in: StandIn) -> None:
    """Of two generations of one name, a read waits for the newest."""
    stand_in.model.answer = lambda prompt, _: "1" if prompt == "a" else "2"
    state = bare.run(backend=backend)
    state += "a" + sgl.gen("v")
    state += "b" + sgl.gen("v")

    assert state["v"] == "2"


def test_row_013_return_value(backend: Backend) -> None:
    """What the body returns is kept."""
    assert qa.run("hi", backend=backend).ret_value == "hihi"


def test_row_014_verbosity(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    """The setting is accepted and prints nothing; the command line shows texts."""
    monkeypatch.setattr(global_config, "verbosity", 2)

    assert qa.run("hi", backend=backend)["a"] == " OUT"
