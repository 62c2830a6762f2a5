"""Log-probabilities of streamed texts, from the wire to the reader."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

import sglrun as sgl
from sglrun.backends.streamed_logprobs import StreamedLogprobs
from tests.stand_in import StandIn, events

NEW = [[-0.1, 1, " a"], [-0.2, 2, " b"], [-0.3, 3, " c"]]


def meta(given: list[Any], count: int, **more: object) -> dict[str, object]:
    """Return what an event tells of *count* tokens so far."""
    return {"output_token_logprobs": given, "completion_tokens": count, **more}


@pytest.mark.parametrize(
    "told",
    [
        [
            meta(NEW[:1], 1, output_token_logprobs_length=1),
            meta(NEW[1:], 3, output_token_logprobs_length=3),
        ],
        [meta(NEW[:1], 1), meta(NEW, 3)],
    ],
    ids=["new-ones", "so-far"],
)
def test_both_forms_give_the_same(told: list[Mapping[str, object]]) -> None:
    """Each piece has the tokens since the one before, and the whole has all."""
    logprobs = StreamedLogprobs()
    pieces = []
    for each in told:
        logprobs.take(each)
        pieces.append(logprobs.told(each))

    assert [piece["output_token_logprobs"] for piece in pieces] == [NEW[:1], NEW[1:]]
    assert [piece["output_token_logprobs_length"] for piece in pieces] == [1, 3]
    assert logprobs.whole(told[-1])["output_token_logprobs"] == NEW


def test_tokens_whose_text_is_held_back_come_with_the_next_piece() -> None:
    """No token is lost where an event brings no text that is sure."""
    logprobs = StreamedLogprobs()
    for count in (1, 2):
        logprobs.take(meta(NEW[:count], count))

    assert logprobs.told(meta(NEW[:2], 2))["output_token_logprobs"] == NEW[:2]


def test_without_logprobs_nothing_is_added() -> None:
    """What the server tells is passed on as it is."""
    logprobs = StreamedLogprobs()
    told = {"completion_tokens": 1}
    logprobs.take(told)

    assert logprobs.told(told) == logprobs.whole(told) == told


@pytest.mark.parametrize("incremental", [True, False])
def test_a_reader_gets_the_tokens_of_each_piece(
    stand_in: StandIn,
    incremental: bool,  # noqa: FBT001 - a case
) -> None:
    """Each pair's log-probabilities are as many as the count of tokens grew by."""
    stand_in.model.model_path = "Qwen/Qwen2.5-7B-Instruct"
    sent = []
    for count in (1, 3):
        since = NEW[(1 if count > 1 else 0) if incremental else 0 : count]
        told = meta(since, count, finish_reason={"type": "stop"} if count > 1 else None)
        if incremental:
            told["output_token_logprobs_length"] = count
        text = "".join(str(token[2]) for token in NEW[:count])
        sent.append({"text": text, "meta_info": {**told, "prompt_tokens": 1}})
    stand_in.fail(events(*sent, end=True), path="/generate")

    @sgl.function
    def ask(s: sgl.ProgramState) -> None:
        s += sgl.user("Hi") + sgl.assistant(sgl.gen("a", return_logprob=True))

    state = ask.run(backend=sgl.RuntimeEndpoint(stand_in.url), stream=True)

    async def pairs() -> list[tuple[str, Mapping[str, Any]]]:
        return [p async for p in state.text_async_iter("a", return_meta_data=True)]

    got = asyncio.run(pairs())

    assert [text for text, _ in got] == [" a", " b c"]
    assert [told["output_token_logprobs"] for _, told in got] == [NEW[:1], NEW[1:]]
    assert [told["completion_tokens"] for _, told in got] == [1, 3]
    assert state.get_meta_info("a")["output_token_logprobs"] == NEW
