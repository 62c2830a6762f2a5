"""The stand-in server that other tests rely on."""

import json
import urllib.request
from typing import Any

from tests.stand_in import StandIn


def ask(server: StandIn, path: str, payload: dict[str, Any] | None = None) -> Any:
    data = None if payload is None else json.dumps(payload).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(server.url + path, data, headers)  # noqa: S310
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
        return json.loads(answer.read())


def test_it_generates_and_remembers(stand_in: StandIn) -> None:
    """A generation is `` OUT``, cut at the limit, and stands in the log."""
    whole = ask(stand_in, "/generate", {"text": "a b"})
    none = ask(
        stand_in, "/generate", {"text": "a b", "sampling_params": {"max_new_tokens": 0}}
    )

    assert (whole["text"], none["text"]) == (" OUT", "")
    assert none["meta_info"]["cached_tokens"] == 1
    assert [entry.path for entry in stand_in.log] == ["/generate"] * 2


def test_padded_and_old_logprobs_differ_by_one_position(stand_in: StandIn) -> None:
    """The padded form starts with a null at the position that the old form leaves."""
    payload = {
        "text": "a b c",
        "sampling_params": {"max_new_tokens": 0},
        "return_logprob": True,
        "logprob_start_len": 1,
        "return_text_in_logprobs": True,
    }
    padded = ask(stand_in, "/generate", payload)["meta_info"]["input_token_logprobs"]
    stand_in.model.logprob_format = "old"
    old = ask(stand_in, "/generate", payload)["meta_info"]["input_token_logprobs"]

    assert [entry[2] for entry in padded] == [" b", " c"]
    assert padded[0][0] is None
    assert old == padded[1:]


def test_chat_and_completions_answer(stand_in: StandIn) -> None:
    """OpenAI's two endpoints answer with the same text."""
    messages = [{"role": "user", "content": "hi"}]
    chat = ask(
        stand_in, "/v1/chat/completions", {"model": "stand-in", "messages": messages}
    )
    plain = ask(stand_in, "/v1/completions", {"model": "stand-in", "prompt": "hi"})

    assert chat["choices"][0]["message"]["content"] == " OUT"
    assert plain["choices"][0]["text"] == " OUT"
