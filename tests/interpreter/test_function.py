"""What an author does with a program besides running it."""

from typing import Any

import pytest

import sglrun as sgl
from sglrun.backends.mock import MockBackend
from sglrun.errors import ProgramError
from sglrun.interpreter.global_config import global_config
from sglrun.lang.chat_template import get_chat_template

PNG = b"\x89PNG\r\n\x1a\n"


@sgl.function
def ask(s: sgl.ProgramState, prompt: str, question: str) -> None:
    """Ask below a prompt."""
    s += prompt
    s += sgl.user("Q: " + question)
    s += sgl.assistant(sgl.gen("answer", stop="\n"))


@sgl.function
def look(s: sgl.ProgramState, question: str) -> None:
    """Ask about an image."""
    s += sgl.user(sgl.image(PNG) + question)
    s += sgl.assistant(sgl.gen("answer"))
    s += sgl.user("More?") + sgl.assistant(sgl.gen("more"))


def test_a_program_is_traced_with_what_is_known() -> None:
    """Bound and given values are part of the text; the rest is stood in for."""
    traced = ask.bind(prompt="Be brief. ").trace()
    given = ask.trace(prompt="Be long. ")

    assert traced.prefix.prompt.text == "Be brief. USER:Q: "
    assert given.prefix.prompt.text == "Be long. USER:Q: "


def test_a_trace_is_written_as_its_backend_writes() -> None:
    """The roles are those of the backend's chat template."""
    backend = MockBackend(chat_template=get_chat_template("chatml"))
    traced = ask.trace(backend=backend, prompt="")
    global_config.default_backend = backend
    by_default = ask.trace(prompt="")
    global_config.default_backend = None

    assert traced.prefix.prompt.text == "<|im_start|>user\nQ: "
    assert by_default.prefix.prompt == traced.prefix.prompt
    assert backend.requests == []


def test_a_trace_goes_on_after_an_image() -> None:
    """An image asks nothing of the backend that a trace stands in with."""
    traced = look.trace()

    assert [node.name for node in traced.graph.of_kind("generate")] == [
        "answer",
        "more",
    ]


def test_an_unknown_argument_is_refused() -> None:
    """A value for a parameter that is not there is named."""
    with pytest.raises(ProgramError, match="'shots'"):
        ask.trace(shots=5)


def test_programs_are_keys() -> None:
    """Two programs are the same only if they are one, whatever they are bound to."""
    bound = ask.bind(prompt="")
    found = {ask: "ask", bound: "bound"}

    assert found[ask] == "ask"
    assert found[bound] == "bound"
    assert ask != ask.bind()


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"max_tokens": 2}, TypeError, "did you mean 'max_new_tokens'"),
        ({"stream": True}, TypeError, "there is no parameter 'stream'"),
        ({"temperature": -1}, ValueError, "temperature must be"),
    ],
)
def test_a_batch_drops_no_keyword(
    given: dict[str, Any], error: type[Exception], message: str
) -> None:
    """What is no sampling parameter is refused, and nothing is run."""
    backend = MockBackend("x")
    with pytest.raises(error, match=message):
        ask.run_batch([{"prompt": "A", "question": "b"}], backend=backend, **given)

    assert backend.requests == []


def test_a_keyword_of_a_batch_is_no_argument() -> None:
    """One that the program takes as well is the batch's, since rows give arguments."""

    @sgl.function
    def warm(s: sgl.ProgramState, temperature: str) -> None:
        s += temperature + sgl.gen("a")

    backend = MockBackend("one two three")
    rows = [{"temperature": "hot"}] * 2
    states = warm.run_batch(rows, backend=backend, temperature=0.5)

    assert [state.text() for state in states] == ["hotone two three"] * 2
    assert {request.sampling.temperature for request in backend.requests} == {0.5}


def test_a_name_is_no_backend() -> None:
    """The error says what is one."""
    named: Any = "local"
    for use in (
        lambda: ask.run(prompt="A", question="b", backend=named),
        lambda: sgl.set_default_backend(named),
    ):
        with pytest.raises(TypeError, match=r"'local' is no backend; .*create_backend"):
            use()
