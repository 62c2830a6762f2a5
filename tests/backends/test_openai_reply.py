"""Replies in OpenAI's shape."""

from typing import Any

import pytest

from sglrun.backends.base import Completion, Request, Usage
from sglrun.backends.openai_reply import assemble, parse_completion
from sglrun.errors import BackendUnavailableError, RateLimitError, ResponseError
from sglrun.lang.prompt import Prompt
from sglrun.lang.sampling import DEFAULTS, SamplingParams

SCHEMA = '{"type": "object"}'


def chat(answer: str = "") -> Prompt:
    asked = Prompt().with_role_begin("system").with_text("S").with_role_end("system")
    asked = asked.with_role_begin("user").with_text(" hi ").with_role_end("user")
    return asked.with_role_begin("assistant").with_text(answer)


def request(prompt: Prompt, **sampling: Any) -> Request:
    return Request(prompt=prompt, sampling=SamplingParams.of(**sampling).over(DEFAULTS))


def reply(*choices: dict[str, Any], **usage: Any) -> dict[str, Any]:
    return {"choices": list(choices), "usage": usage}


def parsed(answer: object, asked: Request | None = None) -> Completion:
    return parse_completion(answer, asked or request(chat()))


def message(content: object, **fields: Any) -> dict[str, Any]:
    reason = fields.pop("finish_reason", "stop")
    body = {"role": "assistant", "content": content, **fields}
    return {"index": 0, "message": body, "finish_reason": reason}


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (
            {
                "prompt_tokens": 9,
                "completion_tokens": 2,
                "prompt_tokens_details": {"cached_tokens": 4},
            },
            (9, 4, 2),
        ),
        ({"prompt_tokens": 9, "prompt_tokens_details": None}, (9, 0, 0)),
        ({"prompt_tokens_details": {"cached_tokens": None}}, (0, 0, 0)),
        ({"prompt_tokens": 9, "prompt_cache_hit_tokens": 8}, (9, 8, 0)),
    ],
)
def test_usage_is_read_wherever_it_stands(
    usage: dict[str, Any], expected: tuple[int, int, int]
) -> None:
    """Counts that a server leaves out are 0."""
    prompt, cached, new = expected

    assert parsed(reply(message("x"), **usage)).usage == Usage(
        requests=1, prompt_tokens=prompt, cached_tokens=cached, completion_tokens=new
    )


def test_a_reply_without_usage_is_read() -> None:
    """A server may tell no usage at all."""
    assert parsed({"choices": [message("x")]}).usage == Usage(requests=1)


@pytest.mark.parametrize(
    ("choice", "text", "reason"),
    [
        (message("x", finish_reason="length"), "x", "length"),
        (message(None, finish_reason="content_filter"), "", "content_filter"),
        (message(None, refusal="I cannot"), "", "refusal"),
        (message("x", refusal=None), "x", "stop"),
        (message([{"type": "text", "text": "a"}, {"text": "b"}]), "ab", "stop"),
        (message("x", finish_reason=None), "x", "unknown"),
    ],
)
def test_texts_and_reasons_are_passed_on(
    choice: dict[str, Any], text: str, reason: str
) -> None:
    """Refusals and filters are told, and an absent content is an empty text."""
    sample = parsed(reply(choice)).samples[0]

    assert (sample.text, sample.finish_reason) == (text, reason)


def test_samples_are_in_their_order() -> None:
    """Choices that come in another order are put right by their number."""
    second = {**message("b"), "index": 1}
    samples = parsed(reply(second, message("a")), request(chat(), n=2)).samples

    assert [sample.text for sample in samples] == ["a", "b"]


def test_reasoning_is_kept_aside() -> None:
    """What a server separates as reasoning stands in the meta info."""
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "why"}]},
        {"type": "text", "text": "x"},
    ]
    three = parsed(reply(message(parts))).samples[0]
    one = parsed(reply(message("x", reasoning_content="why"))).samples[0]
    two = parsed(reply(message("x", reasoning="why"))).samples[0]

    assert one.meta_info["reasoning_content"] == "why"
    assert two.meta_info["reasoning_content"] == "why"
    assert three.meta_info["reasoning_content"] == "why"
    assert three.text == "x"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ({"choices": []}, "no choices"),
        ({}, "no JSON array"),
        ([], "no JSON object"),
        ({"choices": [message("a"), message("b")]}, "2 of 1 choices"),
        ({"choices": ["x"]}, "no JSON object"),
        ({"choices": [message(7)]}, "no JSON array"),
    ],
)
def test_what_is_no_reply_is_an_error(answer: object, error: str) -> None:
    """A reply of another shape says what is wrong with it."""
    with pytest.raises(ResponseError, match=error):
        parsed(answer)


def test_an_error_in_a_200_is_an_error() -> None:
    """Some gateways answer 200 with an error inside."""
    with pytest.raises(RateLimitError, match="slow"):
        parsed({"error": {"message": "slow", "code": 429}})


@pytest.mark.parametrize(
    ("sampling", "text"),
    [({"regex": "[0-9]+"}, "ten"), ({"json_schema": SCHEMA}, "{'a': 1}")],
)
def test_an_ignored_constraint_is_found(sampling: dict[str, str], text: str) -> None:
    """A 200 with free text is not taken for a constrained generation."""
    with pytest.raises(ResponseError, match="ignored") as caught:
        parsed(reply(message(text)), request(chat(), **sampling))

    assert not caught.value.retryable


@pytest.mark.parametrize(
    "choice",
    [
        message("12", finish_reason="length"),
        {**message("12"), "stop_reason": "3"},
        {**message("12"), "matched_stop": "3"},
        message("12"),
    ],
)
def test_a_cut_generation_is_not_held_to_its_constraint(
    choice: dict[str, Any],
) -> None:
    """A text that ended at a limit or a stop string may be the beginning of one."""
    asked = request(chat(), regex="12345", stop="3")

    assert parsed(reply(choice), asked).samples[0].text == "12"


def test_log_probabilities_come_in_two_forms() -> None:
    """Both forms become SGLang's triples."""
    new = {"token": "a", "logprob": -0.5, "id": 7, "top_logprobs": []}
    of_chat = {**message("a"), "logprobs": {"content": [new]}}
    old = {"tokens": ["a"], "token_logprobs": [-0.5], "top_logprobs": [{"b": -1.0}]}
    of_text = {"index": 0, "text": "a", "finish_reason": "stop", "logprobs": old}
    asked = request(chat(), return_logprob=True)
    first = parsed(reply(of_chat), asked).samples[0].meta_info
    second = parsed(reply(of_text), asked).samples[0].meta_info

    assert first["output_token_logprobs"] == [[-0.5, 7, "a"]]
    assert second["output_token_logprobs"] == [[-0.5, None, "a"]]
    assert second["output_top_logprobs"] == [[[-1.0, None, "b"]]]
    with pytest.raises(ResponseError, match="no log-probabilities"):
        parsed(reply(message("a")), asked)


def delta(
    text: str | None, reason: str | None = None, index: int = 0
) -> dict[str, Any]:
    choice = {"index": index, "delta": {"content": text}, "finish_reason": reason}
    return {"choices": [choice]}


def test_a_stream_is_put_together() -> None:
    """Pieces of several samples are told apart, and the last event has the usage."""
    pieces: list[str] = []
    events = [
        {"choices": [{"index": 0, "delta": {"role": "assistant"}}]},
        delta("a"),
        delta("x", index=1),
        delta("b"),
        delta(None, "stop"),
        delta("", "length", 1),
        {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 3}},
    ]
    asked = request(chat(), n=2)
    completion = parsed(assemble(events, asked, pieces.append), asked)

    assert [(s.text, s.finish_reason) for s in completion.samples] == [
        ("ab", "stop"),
        ("x", "length"),
    ]
    assert pieces == ["a", "b"]
    assert completion.usage.completion_tokens == 3


@pytest.mark.parametrize(
    ("texts", "pieces"),
    [
        (["Pre", "fix", " rest"], [" rest"]),
        (["P", "refix re", "st"], [" re", "st"]),
        (["Other"], ["Other"]),
        (["Pr", "oper"], ["Proper"]),
    ],
)
def test_a_repeated_prefix_is_not_streamed(texts: list[str], pieces: list[str]) -> None:
    """What llama-server repeats of the prompt is held back, and nothing else."""
    told: list[str] = []
    events = [*map(delta, texts), delta("", "stop")]
    assemble(events, request(chat("Prefix")), told.append, repeated="Prefix")

    assert told == pieces


def test_a_stream_that_ends_early_is_an_error() -> None:
    """Without a finish reason the text is not whole."""
    with pytest.raises(ResponseError, match="ended in the middle, after 'ab'"):
        assemble([delta("a"), delta("b")], request(chat()), lambda _: None)


def test_an_error_in_a_stream_is_told() -> None:
    """The server's words reach the row."""
    events = [delta("a"), {"error": {"message": "worker died", "code": 500}}]

    with pytest.raises(BackendUnavailableError, match="worker died"):
        assemble(events, request(chat()), lambda _: None)
