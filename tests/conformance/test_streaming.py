"""Rows 78 to 86: reading texts as they are generated."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

import sglrun as sgl
from sglrun.backends.base import Backend
from sglrun.errors import BackendError, BadRequestError
from tests.stand_in import StandIn, events

ANSWER = " alpha beta gamma"


@sgl.function
def qa(s: sgl.ProgramState, q: str) -> None:
    """Ask one question."""
    s += f"Q: {q}\nA:" + sgl.gen("a")


def streamed(backend: Backend, q: str = "hi") -> sgl.ProgramState:
    state: sgl.ProgramState = qa.run(q, backend=backend, stream=True)
    return state


def until_it_raises(pieces: Iterable[str]) -> tuple[str, BaseException]:
    """Return what comes of *pieces* before their exception, and that exception."""
    text = ""
    try:
        for piece in pieces:
            text += piece
    except Exception as exc:  # noqa: BLE001 - it is what the test is about
        return text, exc
    raise AssertionError(f"ended without an exception after {text!r}")


def test_row_078_stream_text(backend: Backend, stand_in: StandIn) -> None:
    """The text's pieces, the prompt first, are the whole text."""
    stand_in.model.answer = ANSWER
    pieces = list(streamed(backend).text_iter())

    assert pieces[0].startswith("Q: hi\nA:")
    assert "".join(pieces) == f"Q: hi\nA:{ANSWER}"


def test_row_079_stream_variable(backend: Backend, stand_in: StandIn) -> None:
    """A variable's pieces are what was generated."""
    stand_in.model.answer = ANSWER

    assert "".join(streamed(backend).text_iter("a")) == ANSWER


@pytest.mark.parametrize("name", [None, "a"])
def test_row_080_stream_server_error(backend: Backend, name: str | None) -> None:
    """What the server refuses is raised after the text before it."""
    text, raised = until_it_raises(streamed(backend, "boom").text_iter(name))

    assert isinstance(raised, BadRequestError)
    assert text == ("Q: boom\nA:" if name is None else "")


def test_row_081_stream_author_raises(backend: Backend) -> None:
    """An exception of the body is raised to who iterates, and kept."""

    @sgl.function
    def wrong(s: sgl.ProgramState) -> None:
        s += "said"
        raise LookupError("mine")

    state = wrong.run(backend=backend, stream=True)
    text, raised = until_it_raises(state.text_iter())

    assert (text, str(raised)) == ("said", "mine")
    assert state.error() is raised


def test_row_082_iterate_twice(backend: Backend, stand_in: StandIn) -> None:
    """A second iteration gives the text again."""
    stand_in.model.answer = ANSWER
    state = streamed(backend)

    assert "".join(state.text_iter()) == "".join(state.text_iter())
    assert "".join(state.text_iter("a")) == "".join(state.text_iter("a")) == ANSWER


def test_row_083_unknown_name(backend: Backend) -> None:
    """A name that never comes is a ``KeyError`` once the program has ended."""
    with pytest.raises(KeyError, match="never"):
        list(streamed(backend).text_iter("never"))


def test_row_084_error_event(backend: Backend, stand_in: StandIn) -> None:
    """An error in the middle of a stream is raised with the server's words."""
    chunk: dict[str, Any] = {"index": 0, "meta_info": {"finish_reason": None}}
    stand_in.fail(
        events(
            {**chunk, "text": " one"},
            {**chunk, "text": " one two"},
            {"error": {"message": "out of memory"}},
        )
    )
    text, raised = until_it_raises(streamed(backend).text_iter("a"))

    assert text == " one two"
    assert isinstance(raised, BackendError)
    assert "out of memory" in str(raised)


def test_row_085_incremental_server(backend: Backend, stand_in: StandIn) -> None:
    """Events that hold only what is new give the same text."""
    stand_in.model.answer = ANSWER
    stand_in.model.stream_form = "incremental"
    state = streamed(backend)

    assert "".join(state.text_iter("a")) == state["a"] == ANSWER


def test_row_086_async_iteration_and_meta(backend: Backend, stand_in: StandIn) -> None:
    """A named variable gives pairs of text and meta info, the last one complete."""
    stand_in.model.answer = ANSWER
    state = streamed(backend)

    async def pairs() -> list[tuple[str, Mapping[str, Any]]]:
        return [p async for p in state.text_async_iter("a", return_meta_data=True)]

    got = asyncio.run(pairs())

    assert "".join(text for text, _ in got) == ANSWER
    assert got[-1][1]["completion_tokens"] == 3
