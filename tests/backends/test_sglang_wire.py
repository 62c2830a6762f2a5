"""SGLang's native wire: payloads and replies."""

from typing import Any

import pytest

from sglrun.backends.base import Request, Usage
from sglrun.backends.sglang_wire import assemble, parse_completion, payload
from sglrun.errors import (
    BackendError,
    BackendUnavailableError,
    BadRequestError,
    RateLimitError,
    ResponseError,
)
from sglrun.lang.chat_template import get_chat_template
from sglrun.lang.prompt import ImageData, Prompt, VideoData
from sglrun.lang.sampling import DEFAULTS, SamplingParams

PLAIN = Prompt().with_text("Q: hi\nA:")


def request(prompt: Prompt = PLAIN, **sampling: Any) -> Request:
    return Request(prompt=prompt, sampling=SamplingParams.of(**sampling).over(DEFAULTS))


def test_all_sampling_fields_are_sent_where_they_belong() -> None:
    """Sampling fields go inside, log-probability fields beside, extras on top."""
    sent = payload(
        request(
            max_new_tokens=5,
            stop="\n",
            stop_regex="a+",
            seed=7,
            json_schema='{"type": "object"}',
            return_logprob=True,
            top_logprobs_num=2,
            extra={"rid": "r-1"},
        )
    )

    assert sent == {
        "text": "Q: hi\nA:",
        "sampling_params": {
            "max_new_tokens": 5,
            "min_new_tokens": 0,
            "n": 1,
            "stop": ("\n",),
            "stop_regex": ("a+",),
            "temperature": 1.0,
            "top_p": 1.0,
            "top_k": -1,
            "min_p": 0.0,
            "frequency_penalty": 0.0,
            "presence_penalty": 0.0,
            "repetition_penalty": 1.0,
            "sampling_seed": 7,
            "ignore_eos": False,
            "json_schema": '{"type": "object"}',
        },
        "return_logprob": True,
        "top_logprobs_num": 2,
        "rid": "r-1",
    }


def test_fields_that_old_servers_lack_go_only_where_needed() -> None:
    """A server of last year, which answers 500 to new names, can still be asked."""
    params = payload(request())["sampling_params"]

    assert isinstance(params, dict)
    assert not {"stop_regex", "stop_token_ids", "sampling_seed"} & params.keys()


def test_several_images_are_sent_in_order() -> None:
    """Images go as base64 or as the address that the server is to fetch."""
    asked = Prompt().with_image(ImageData(data=b"abc")).with_text(" and ")
    asked = asked.with_image(ImageData(url="http://h/x.png"))

    assert payload(request(asked))["image_data"] == ["YWJj", "http://h/x.png"]
    assert "image_data" not in payload(request())


def test_videos_are_sent_beside_the_images() -> None:
    """Each kind goes in its own field, in order, a marker for each in the text."""
    template = get_chat_template("qwen2-vl")
    asked = Prompt(template=template).with_image(VideoData(data=b"abc"))
    asked = asked.with_image(ImageData(data=b"abc"))
    asked = asked.with_image(VideoData(url="http://h/x.mp4"))
    sent = payload(request(asked))

    assert sent["video_data"] == ["YWJj", "http://h/x.mp4"]
    assert sent["image_data"] == ["YWJj"]
    assert str(sent["text"]).count("<|video_pad|>") == 2
    assert "video_data" not in payload(request())


def answer(text: str = "x", reason: object = None, **meta: Any) -> dict[str, Any]:
    ended = {"type": "stop", "matched": 2} if reason is None else reason
    return {"text": text, "meta_info": {"finish_reason": ended, **meta}}


def test_a_reply_becomes_samples_and_usage() -> None:
    """The prompt of several samples is counted once, their tokens together."""
    replies = [
        answer("a", prompt_tokens=5, completion_tokens=2, cached_tokens=3),
        answer(
            "b", {"type": "length", "length": 4}, prompt_tokens=5, completion_tokens=4
        ),
    ]
    completion = parse_completion(replies, request(n=2))

    assert [(s.text, s.finish_reason) for s in completion.samples] == [
        ("a", "stop"),
        ("b", "length"),
    ]
    assert completion.samples[0].meta_info["cached_tokens"] == 3
    assert completion.usage == Usage(
        requests=1, prompt_tokens=5, cached_tokens=3, completion_tokens=6
    )


@pytest.mark.parametrize(
    ("reason", "cls"),
    [
        ({"type": "abort", "message": "too long", "status_code": 400}, BadRequestError),
        ({"type": "abort", "message": "busy", "status_code": 429}, RateLimitError),
        (
            {"type": "abort", "message": "died", "status_code": 503},
            BackendUnavailableError,
        ),
        ({"type": "abort", "message": "died"}, BackendUnavailableError),
    ],
)
def test_an_abort_is_an_error(reason: dict[str, Any], cls: type[BackendError]) -> None:
    """A generation that the server gave up has the server's status and words."""
    with pytest.raises(cls, match=reason["message"]) as caught:
        parse_completion(answer("half", reason), request())

    assert type(caught.value) is cls


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ([answer("a")], "1 of 2 answers"),
        ("text", "no JSON object"),
        ([7], "no JSON object"),
        ([{"meta_info": {}}, {"meta_info": {}}], "no text"),
    ],
)
def test_what_is_no_reply_is_an_error(reply: object, message: str) -> None:
    """A reply of another shape or count says what is wrong with it."""
    with pytest.raises(ResponseError, match=message):
        parse_completion(reply, request(n=2))


def test_an_ignored_regex_is_found() -> None:
    """An old server that answers a bad pattern with free text is not believed."""
    asked = request(regex="[0-9]+", stop="3")
    cut = answer("1x", {"type": "stop", "matched": "3"})

    assert parse_completion(cut, asked).samples[0].text == "1x"
    with pytest.raises(ResponseError, match="ignored the regex"):
        parse_completion(answer("ten"), asked)


def event(text: str, count: int, *, end: bool = False, **more: Any) -> dict[str, Any]:
    reason = {"type": "stop", "matched": 2} if end else None
    meta = {"finish_reason": reason, "completion_tokens": count}
    return {"text": text, "meta_info": meta, **more}


@pytest.mark.parametrize(
    "events",
    [
        [event("ha", 1), event("haha", 2), event("haha!", 3, end=True)],
        [event("ha", 1), event("ha", 2, output_ids=[5]), event("!", 3, end=True)],
        [event("haha", 2), event("!", 3, end=True)],
        [event("haha", 2), event("haha!", 3), event("haha!", 3, end=True)],
        [event("haha!", 3), event("", 3, end=True)],
        [event("h", 1), event("a", 2), event("ha!", 3, end=True)],
        [event("haha", 2, output_ids=[5, 5]), event("!", 3, end=True, output_ids=[6])],
    ],
)
def test_cumulative_and_incremental_streams_are_told_apart(
    events: list[dict[str, Any]],
) -> None:
    """The text is the same, whichever way the server sends it."""
    pieces: list[str] = []
    answers = assemble(events, request(), pieces.append)

    assert [one["text"] for one in answers] == ["haha!"]
    assert "".join(pieces) == "haha!"


def test_a_stop_string_is_not_streamed() -> None:
    """What a stop string may begin with is held back until it is known."""
    pieces: list[str] = []
    events = [event("a\n", 1), event("a\nb", 2), event("a\nb\n", 3)]
    answers = assemble(
        [*events, event("a\nb", 4, end=True)], request(stop="\n\n"), pieces.append
    )

    assert answers[0]["text"] == "".join(pieces) == "a\nb"
    assert pieces == ["a", "\nb"]


def test_samples_of_a_stream_are_told_apart() -> None:
    """Events carry the number of their sample; only the first is told as it comes."""
    pieces: list[str] = []
    events = [
        event("a", 1, index=0),
        event("x", 1, index=1),
        event("ab", 2, index=0, end=True),
        event("xy", 2, index=1, end=True),
    ]
    answers = assemble(events, request(n=2), pieces.append)

    assert [one["text"] for one in answers] == ["ab", "xy"]
    assert pieces == ["a", "b"]


def test_an_error_in_a_stream_is_told() -> None:
    """The server's words reach the row, not a missing key."""
    events = [event("a", 1), {"error": {"message": "out of memory", "code": 500}}]

    with pytest.raises(BackendUnavailableError, match="out of memory"):
        assemble(events, request(), lambda _: None)


def test_a_stream_that_ends_early_is_an_error() -> None:
    """Without a finish reason the text is not whole."""
    with pytest.raises(ResponseError, match="in the middle, after 'a'"):
        assemble([event("a", 1)], request(), lambda _: None)
