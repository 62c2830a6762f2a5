"""Rows 112 to 116: reasoning kept apart."""

import pytest

import sglrun as sgl
from sglrun.backends.base import Backend
from tests.stand_in import StandIn

MODEL = "qwen3"


@pytest.fixture(autouse=True)
def _thinking(stand_in: StandIn) -> None:
    stand_in.model.answer = "<think>why</think> ans"


def test_row_112_basic(backend: Backend) -> None:
    """The answer is in the variable and the text, the reasoning beside it."""

    @sgl.function
    def program(s: sgl.ProgramState) -> None:
        s += "Q:" + sgl.separate_reasoning(sgl.gen("a"), MODEL)

    state = program.run(backend=backend)

    assert (state["a"], state["a_reasoning_content"]) == ("ans", "why")
    assert state.text() == "Q:ans"


def test_row_113_literal(backend: Backend) -> None:
    """Text before the generation is kept."""

    @sgl.function
    def program(s: sgl.ProgramState) -> None:
        s += sgl.user("Q")
        s += sgl.assistant("Answer: " + sgl.separate_reasoning(sgl.gen("a"), MODEL))

    state = program.run(backend=backend)

    assert state.text() == "USER:Q\nASSISTANT:Answer: ans\n"


def test_row_114_two_gens(backend: Backend) -> None:
    """Two generations have their reasoning apart, each for itself."""

    @sgl.function
    def program(s: sgl.ProgramState) -> None:
        both = "1:" + sgl.gen("a") + " 2:" + sgl.gen("b")
        s += sgl.separate_reasoning(both, MODEL)

    state = program.run(backend=backend)

    assert state.text() == "1:ans 2:ans"
    assert state.variables() == {
        "a": "ans",
        "a_reasoning_content": "why",
        "b": "ans",
        "b_reasoning_content": "why",
    }


def test_row_115_around_the_role(backend: Backend) -> None:
    """Around a whole turn, the text and the message hold only the answer."""

    @sgl.function
    def program(s: sgl.ProgramState) -> None:
        s += sgl.separate_reasoning(sgl.assistant(sgl.gen("a")), MODEL)

    state = program.run(backend=backend)

    assert state.text() == "ASSISTANT:ans\n"
    assert state.messages() == [{"role": "assistant", "content": "ans"}]


def test_row_116_stream(backend: Backend) -> None:
    """Streamed, the text never shows the reasoning, which can be read as well."""

    @sgl.function
    def program(s: sgl.ProgramState) -> None:
        s += "Q:" + sgl.separate_reasoning(sgl.gen("a"), MODEL)

    state = program.run(backend=backend, stream=True)

    assert "".join(state.text_iter()) == "Q:ans"
    assert "".join(state.text_iter("a_reasoning_content")) == "why"
    assert state["a_reasoning_content"] == "why"
