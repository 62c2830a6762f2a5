"""The backend for Anthropic's Messages API, against a server as strict as it is."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from sglrun.backends.anthropic import AnthropicBackend, create
from sglrun.backends.anthropic_payload import payload
from sglrun.backends.anthropic_reply import assemble, parse_sample
from sglrun.backends.base import BackendOptions, Request, Secret, SelectRequest
from sglrun.errors import (
    AuthenticationError,
    BackendUnavailableError,
    BadRequestError,
    ConfigError,
    ModelNotFoundError,
    ResponseError,
    UnsupportedFeatureError,
)
from sglrun.lang.prompt import ImageData, Prompt
from sglrun.lang.sampling import DEFAULTS, SamplingParams
from tests import stand_in as faults
from tests.stand_in import StandIn

LONG = "Sort each message into billing, shipping or other. " * 20


@pytest.fixture
def backend(stand_in: StandIn) -> Iterator[AnthropicBackend]:
    """The backend, on a stand-in that is as strict as the API."""
    stand_in.model.kind = "anthropic"
    options = BackendOptions(url=stand_in.url, api_key=Secret(value="sk-ant-1"))
    with create(options) as made:
        yield made


def turns(*said: tuple[str, str]) -> Prompt:
    prompt = Prompt()
    for role, text in said:
        prompt = prompt.with_role_begin(role).with_text(text).with_role_end(role)
    return prompt


def asking(*said: tuple[str, str], answer: str = "") -> Prompt:
    return turns(*said).with_role_begin("assistant").with_text(answer)


def request(prompt: Prompt, **sampling: Any) -> Request:
    return Request(prompt=prompt, sampling=SamplingParams.of(**sampling).over(DEFAULTS))


def test_only_what_is_asked_is_sent() -> None:
    """Nothing that has its default is sent, so no model refuses a pair of them."""
    prompt = asking(("system", "S"), ("user", "hi"))
    sent = payload("m", request(prompt))
    drawn = payload("m", request(prompt, temperature=0.5, top_k=5, stop=["a", "b"]))

    assert sent == {
        "model": "m",
        "max_tokens": 128,
        "system": "S",
        "messages": [{"role": "user", "content": "hi"}],
    }
    assert drawn == {
        **sent,
        "temperature": 0.5,
        "top_k": 5,
        "stop_sequences": ["a", "b"],
    }


def test_turns_that_say_nothing_are_left_out() -> None:
    """The API refuses empty turns, and they mean nothing."""
    prompt = asking(("user", "a"), ("assistant", ""), ("user", " \n"), ("user", "b"))
    messages = payload("m", request(prompt))["messages"]

    assert messages == [
        {"role": "user", "content": "a"},
        {"role": "user", "content": "b"},
    ]


def test_several_system_turns_are_one_prompt() -> None:
    """System turns at the beginning stay apart as blocks; a later one is refused."""
    first = payload(
        "m", request(asking(("system", "A"), ("system", "B"), ("user", "c")))
    )
    later = request(asking(("user", "a"), ("system", "B"), ("user", "c")))

    assert first["system"] == [
        {"type": "text", "text": "A"},
        {"type": "text", "text": "B"},
    ]
    with pytest.raises(UnsupportedFeatureError, match="'system'"):
        payload("m", later)


def test_images_are_sent_in_its_own_form() -> None:
    """Bytes go as base64 with their type, an address as an address."""
    asked = Prompt().with_role_begin("user").with_text("what?")
    asked = asked.with_image(ImageData(data=b"abc", media_type="image/jpeg"))
    asked = asked.with_image(ImageData(url="https://x/y.png")).with_role_end("user")
    sent = payload("m", request(asked.with_role_begin("assistant")))

    assert sent["messages"] == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "what?"},
                {
                    "type": "image",
                    "source": {
                        "type": "base64",
                        "media_type": "image/jpeg",
                        "data": "YWJj",
                    },
                },
                {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}},
            ],
        }
    ]


@pytest.mark.parametrize("stream", [False, True])
def test_white_space_before_the_answer_is_not_doubled(
    stand_in: StandIn, backend: AnthropicBackend, *, stream: bool
) -> None:
    """What the API does not take at the end is the prompt's, not the answer's too."""
    pieces: list[str] = []
    on_text = pieces.append if stream else None
    asked = request(asking(("user", "hi"), answer="Sure: "))
    text = backend.generate(asked, on_text).samples[0].text

    assert stand_in.log[-1].payload["messages"][-1]["content"] == "Sure:"
    assert text == "OUT"
    assert "".join(pieces) == (text if stream else "")


@pytest.mark.parametrize("stream", [False, True])
def test_stops_of_white_space_are_found_here(
    stand_in: StandIn, backend: AnthropicBackend, *, stream: bool
) -> None:
    """A line end as stop string, which the API refuses, cuts the text all the same."""
    stand_in.model.answer = " one\ntwo\n\nthree!"
    pieces: list[str] = []
    on_text = pieces.append if stream else None
    asked = request(asking(("user", "hi")), stop=["\n\n", "!"])
    sample = backend.generate(asked, on_text).samples[0]

    assert stand_in.log[-1].payload["stop_sequences"] == ["!"]
    assert (sample.text, sample.finish_reason) == (" one\ntwo", "stop")
    assert sample.meta_info["finish_reason"] == {"type": "stop", "matched": "\n\n"}
    assert "".join(pieces) == (sample.text if stream else "")


def test_the_rest_of_a_stream_is_told_at_its_end(
    stand_in: StandIn, backend: AnthropicBackend
) -> None:
    """What might have been the beginning of a stop string is told when it was none."""
    stand_in.model.answer = "one\n"
    pieces: list[str] = []
    backend.generate(request(asking(("user", "hi")), stop="\n\n"), pieces.append)

    assert "".join(pieces) == "one\n"


def test_a_prefix_that_ends_in_a_turn_is_read_from_the_cache(
    stand_in: StandIn, backend: AnthropicBackend
) -> None:
    """The shared part of a turn is a block of its own, marked and counted as cached."""
    prefix = turns(("system", "S")).with_role_begin("user").with_text(LONG)
    spent = backend.cache_prefix(prefix)
    asked = request(asking(("system", "S"), ("user", f"{LONG}Where is it?")))
    usage = backend.generate(asked).usage
    other = backend.generate(request(asking(("system", "S"), ("user", "hi")))).usage
    content = stand_in.generations[1]["messages"][0]["content"]

    assert content == [
        {"type": "text", "text": LONG, "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": "Where is it?"},
    ]
    assert spent.cached_tokens == 0
    assert usage.cached_tokens > 100
    assert usage.prompt_tokens > usage.cached_tokens
    assert other.cached_tokens == 0


def test_a_prefix_of_system_alone_is_cached(
    stand_in: StandIn, backend: AnthropicBackend
) -> None:
    """The API wants a user's turn; it stands after what is cached."""
    backend.cache_prefix(turns(("system", LONG)))
    asked = request(asking(("system", LONG), ("user", "Where is it?")))
    usage = backend.generate(asked).usage
    first, second = stand_in.generations

    assert first["messages"] == [{"role": "user", "content": "."}]
    assert first["system"] == second["system"]
    assert second["system"][0]["cache_control"] == {"type": "ephemeral"}
    assert usage.cached_tokens > 100


def test_an_empty_prefix_is_not_sent(
    stand_in: StandIn, backend: AnthropicBackend
) -> None:
    """Nothing is shared, so nothing is asked."""
    backend.cache_prefix(Prompt().with_role_begin("user"))

    assert stand_in.generations == []


def test_thoughts_are_kept_apart(backend: AnthropicBackend) -> None:
    """What a model thinks is in meta info, not in the text, streamed or not."""
    thinking = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
    asked = request(asking(("user", "hi")), extra=thinking)
    pieces: list[str] = []
    for sample in (
        backend.generate(asked).samples[0],
        backend.generate(asked, pieces.append).samples[0],
    ):
        assert sample.text == " OUT"
        assert sample.meta_info["reasoning_content"] == "hm"
    assert "".join(pieces) == " OUT"


def test_a_schema_after_text_is_refused(backend: AnthropicBackend) -> None:
    """The API cannot hold what continues a text to a schema."""
    asked = asking(("user", "hi"), answer="Here:")

    with pytest.raises(UnsupportedFeatureError, match="json_schema after text"):
        backend.generate(request(asked, json_schema='{"type": "object"}'))


def test_an_option_is_written_under_a_schema(
    stand_in: StandIn, backend: AnthropicBackend
) -> None:
    """A choice is one of the options, spelled exactly."""
    asked = SelectRequest(prompt=asking(("user", "hi")), choices=(' "a"\n', "b"))
    selection = backend.select(asked)
    schema = stand_in.log[-1].payload["output_config"]["format"]["schema"]

    assert selection.chosen == ' "a"\n'
    assert schema["properties"]["choice"]["enum"] == [' "a"\n', "b"]


def test_a_choice_is_the_likeliest_where_the_model_lets_it(
    stand_in: StandIn, backend: AnthropicBackend
) -> None:
    """A choice is drawn at temperature 0, or without where a model refuses that."""
    asked = SelectRequest(prompt=asking(("user", "hi")), choices=("a", "b"))
    backend.select(asked)
    stand_in.fail(faults.status(400, error_of("invalid_request_error", "no")))
    backend.select(asked)
    backend.select(asked)
    sent = [each.get("temperature") for each in stand_in.generations]

    assert sent == [0.0, 0.0, None, None]


def test_an_option_that_is_none_is_an_error(
    stand_in: StandIn, backend: AnthropicBackend
) -> None:
    """A server that ignores the schema is told apart from an answer."""
    stand_in.model.ignore_constraints = True
    asked = SelectRequest(prompt=asking(("user", "hi")), choices=("a", "b"))

    with pytest.raises(ResponseError, match="ignore"):
        backend.select(asked)


def test_the_key_is_sent_its_way_and_never_shown(
    stand_in: StandIn, backend: AnthropicBackend
) -> None:
    """The key goes in Anthropic's header, with the version, and not into errors."""
    headers = stand_in.log[-1].headers
    echo = {"type": "error", "error": {"message": "bad key sk-ant-1"}}
    stand_in.fail(faults.status(401, echo))

    assert headers["x-api-key"] == "sk-ant-1"
    assert headers["anthropic-version"] == "2023-06-01"
    with pytest.raises(AuthenticationError) as caught:
        backend.generate(request(asking(("user", "hi"))))
    assert "sk-ant-1" not in str(caught.value)


def test_without_a_key_and_an_address_nothing_is_asked() -> None:
    """The variable that holds the key is named."""
    with pytest.raises(ConfigError, match="ANTHROPIC_API_KEY"):
        create(BackendOptions(model="m"))


def error_of(kind: str, message: str) -> dict[str, object]:
    return {"type": "error", "error": {"type": kind, "message": message}}


@pytest.mark.parametrize(
    ("status", "kind", "message", "expected"),
    [
        (400, "invalid_request_error", "too long", BadRequestError),
        (
            *(
                400,
                "invalid_request_error",
                "does not support assistant message prefill",
            ),
            UnsupportedFeatureError,
        ),
        (404, "not_found_error", "model: nope", ModelNotFoundError),
        (500, "api_error", "Internal", BackendUnavailableError),
        (529, "overloaded_error", "Overloaded", BackendUnavailableError),
    ],
)
def test_errors_keep_their_words(
    stand_in: StandIn,
    backend: AnthropicBackend,
    status: int,
    kind: str,
    message: str,
    expected: type[Exception],
) -> None:
    """Each status is its class, with what the API said."""
    stand_in.fail(faults.status(status, error_of(kind, message)))

    with pytest.raises(expected, match=message):
        backend.generate(request(asking(("user", "hi"))))


def test_an_error_in_a_stream_is_raised() -> None:
    """An overload in the middle of a stream may be tried again."""
    overloaded = error_of("overloaded_error", "Overloaded")

    with pytest.raises(BackendUnavailableError, match="Overloaded"):
        assemble([{"type": "message_start", "message": {}}, overloaded], print)


def test_a_stream_without_its_end_is_an_error() -> None:
    """Text that was cut off is never taken for an answer."""
    delta = {"type": "text_delta", "text": "half"}
    events = [{"type": "content_block_delta", "index": 0, "delta": delta}]

    with pytest.raises(ResponseError, match="in the middle, after 'half'"):
        assemble(events, lambda _: None)


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("end_turn", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "refusal"),
        ("pause_turn", "pause_turn"),
    ],
)
def test_reasons_are_everyones_words(word: str, reason: str) -> None:
    """The reasons that others have too are named as they are elsewhere."""
    reply = {"content": [{"type": "text", "text": "x"}], "stop_reason": word}

    assert parse_sample(reply).finish_reason == reason


def test_text_that_ignores_its_schema_is_an_error(
    stand_in: StandIn, backend: AnthropicBackend
) -> None:
    """An answer of 200 with free text is not taken for the JSON that was asked."""
    stand_in.model.ignore_constraints = True
    asked = request(asking(("user", "hi")), json_schema=json.dumps({"type": "object"}))

    with pytest.raises(ResponseError, match="ignored the json_schema"):
        backend.generate(asked)


@pytest.mark.parametrize("stream", [False, True])
def test_llama_server_is_known_by_its_habits(
    stand_in: StandIn, *, stream: bool
) -> None:
    """It repeats what it continues, and would ignore a schema in silence."""
    stand_in.model.kind = "llama-server"
    stand_in.model.answer = "Sure: it is"
    pieces: list[str] = []
    on_text = pieces.append if stream else None
    with create(BackendOptions(url=stand_in.url)) as backend:
        asked = request(asking(("user", "hi"), answer="Sure: "))
        text = backend.generate(asked, on_text).samples[0].text
        held = request(asking(("user", "hi")), json_schema="{}")
        with pytest.raises(UnsupportedFeatureError, match="json_schema"):
            backend.generate(held)
        with pytest.raises(UnsupportedFeatureError, match="select"):
            backend.select(SelectRequest(prompt=asked.prompt, choices=("a", "b")))

    assert text == "it is"
    assert "".join(pieces) == (text if stream else "")
