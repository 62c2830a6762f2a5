"""Rows 105 to 111: models behind APIs of chat, and speculation on them."""

from collections.abc import Callable
from typing import Any

import pytest

import sglrun as sgl
from sglrun.backends import create_backend
from sglrun.backends.base import Backend, BackendOptions, Secret
from sglrun.backends.dialects import DIALECTS
from sglrun.errors import UnsupportedFeatureError
from tests.stand_in import StandIn


@sgl.function
def chat(s: sgl.ProgramState) -> None:
    """Two turns."""
    s += sgl.system("S")
    s += sgl.user("one") + sgl.assistant(sgl.gen("a"))
    s += sgl.user("two") + sgl.assistant(sgl.gen("b"))


@sgl.function
def prefilled(s: sgl.ProgramState) -> None:
    """Begin the answer."""
    s += sgl.user("one") + sgl.assistant("Pre " + sgl.gen("a"))


@pytest.fixture
def openai(stand_in: StandIn) -> Callable[[Any], Backend]:
    """Make the backend for a server of the kind that is given."""

    def connect(kind: Any) -> Backend:
        stand_in.model.kind = kind
        key = Secret(value="sk-1")
        options = BackendOptions(url=stand_in.url, model="stand-in", api_key=key)
        return create_backend("openai", options)

    return connect


def test_row_105_chat(stand_in: StandIn) -> None:
    """Turns are messages, earlier answers among them, and the tokens add up."""
    stand_in.model.kind = "openai"
    backend = sgl.OpenAI("stand-in", base_url=f"{stand_in.url}/v1", api_key="sk-1")
    chat.run(backend=backend).sync()
    first, second = stand_in.generations

    assert first["messages"] == [
        {"role": "system", "content": "S"},
        {"role": "user", "content": "one"},
    ]
    assert [each["content"] for each in second["messages"]] == [
        "S",
        "one",
        "OUT",
        "two",
    ]
    assert backend.token_usage.completion_tokens == 2
    backend.close()


def test_row_106_text_before_gen(
    stand_in: StandIn, openai: Callable[[Any], Backend]
) -> None:
    """Text before a generation is continued where the server can, else refused."""
    state = prefilled.run(backend=openai("vllm"))
    state.sync()
    (sent,) = stand_in.generations
    refused = prefilled.run(backend=openai("openai"))

    assert sent["messages"][-1] == {"role": "assistant", "content": "Pre "}
    assert (sent["continue_final_message"], sent["add_generation_prompt"]) == (
        True,
        False,
    )
    assert state.text().endswith("ASSISTANT:Pre  OUT\n")
    assert isinstance(refused.error(), UnsupportedFeatureError)
    assert "'Pre '" in str(refused.error())


def test_row_107_one_limit(
    stand_in: StandIn,
    openai: Callable[[Any], Backend],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A streamed request to OpenAI has one limit of tokens, whatever the model."""
    backend = openai("openai")
    monkeypatch.setattr(backend, "dialect", DIALECTS["openai"])
    state = chat.run(backend=backend, stream=True)
    list(state.text_iter())
    limits = [
        [name for name in sent if name.startswith("max_")]
        for sent in stand_in.generations
    ]

    assert limits == [["max_completion_tokens"]] * 2


def test_row_108_speculation_that_misses(
    openai: Callable[[Any], Backend],
) -> None:
    """Where it does not fit, each generation is asked for alone, and that is said."""

    def body(s: sgl.ProgramState) -> None:
        s += sgl.user("x")
        s += sgl.assistant("A:" + sgl.gen("a", stop="\n") + "\nB:" + sgl.gen("b"))

    program = sgl.function(body, num_api_spec_tokens=64)
    with pytest.warns(UserWarning, match="specul"):
        state = program.run(backend=openai("vllm"), use_thread=False)

    assert (state["a"], state["b"]) == (" OUT", " OUT")


def test_row_109_speculation_and_limit(
    stand_in: StandIn, openai: Callable[[Any], Backend]
) -> None:
    """A generation under speculation keeps to its own limit of tokens."""
    stand_in.model.answer = " one two three four five six"

    def body(s: sgl.ProgramState) -> None:
        s += "N:" + sgl.gen("n", max_tokens=4)

    program = sgl.function(body, num_api_spec_tokens=64)
    state = program.run(backend=openai("openai"))

    assert state["n"] == " one two three four"


def test_row_110_anthropic_second_turn(stand_in: StandIn) -> None:
    """The system prompt is sent with every turn, and is among the messages."""
    options = BackendOptions(url=stand_in.url, model="m", api_key=Secret(value="k"))
    state = chat.run(backend=create_backend("anthropic", options))
    state.sync()
    sent = [entry.payload for entry in stand_in.log if entry.path == "/v1/messages"]

    assert [each["system"] for each in sent] == ["S", "S"]
    assert state.messages()[0] == {"role": "system", "content": "S"}


def test_row_111_anthropic_prefill(stand_in: StandIn) -> None:
    """Text before a generation is sent as the beginning of the answer."""
    options = BackendOptions(url=stand_in.url, model="m", api_key=Secret(value="k"))
    prefilled.run(backend=create_backend("anthropic", options)).sync()
    (sent,) = (e.payload for e in stand_in.log if e.path == "/v1/messages")

    assert sent["messages"][-1] == {"role": "assistant", "content": "Pre"}
