"""Payloads in OpenAI's shape."""

from collections.abc import Mapping
from typing import Any

import pytest

from sglrun.backends.base import Request
from sglrun.backends.dialects import DIALECTS
from sglrun.backends.openai_payload import payload
from sglrun.errors import UnsupportedFeatureError
from sglrun.lang.prompt import ImageData, Prompt, VideoData
from sglrun.lang.sampling import DEFAULTS, SamplingParams

PLAIN = Prompt().with_text("Q: hi\nA:")
SCHEMA = '{"type": "object"}'


def chat(answer: str = "") -> Prompt:
    asked = Prompt().with_role_begin("system").with_text("S").with_role_end("system")
    asked = asked.with_role_begin("user").with_text(" hi ").with_role_end("user")
    return asked.with_role_begin("assistant").with_text(answer)


def request(prompt: Prompt = PLAIN, **sampling: Any) -> Request:
    return Request(prompt=prompt, sampling=SamplingParams.of(**sampling).over(DEFAULTS))


def sent(dialect: str, prompt: Prompt = PLAIN, **sampling: Any) -> Mapping[str, Any]:
    return payload(DIALECTS[dialect], "m", request(prompt, **sampling))


def test_a_chat_is_messages() -> None:
    """Closed turns become messages; an empty open turn becomes none."""
    assert sent("openai", chat(), max_new_tokens=9) == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "S"},
            {"role": "user", "content": "hi "},
        ],
        "max_completion_tokens": 9,
        "temperature": 1.0,
        "top_p": 1.0,
    }


def test_a_prompt_without_roles_is_a_text() -> None:
    """The completions endpoint gets the text and the old name of the limit."""
    assert sent("generic") == {
        "model": "m",
        "prompt": "Q: hi\nA:",
        "max_tokens": 128,
        "temperature": 1.0,
        "top_p": 1.0,
    }


def test_no_tokens_are_asked_for_as_one() -> None:
    """Servers that refuse a limit of 0, or ignore it, get 1."""
    assert sent("generic", max_new_tokens=0)["max_tokens"] == 1


def test_only_instruct_models_of_openai_take_plain_prompts() -> None:
    """OpenAI's chat models refuse a prompt without roles, its old models take it."""
    with pytest.raises(UnsupportedFeatureError, match="a prompt without roles"):
        sent("openai")
    instruct = DIALECTS["openai"].of_model("gpt-3.5-turbo-instruct")

    assert payload(instruct, "m", request())["prompt"] == "Q: hi\nA:"


def test_engines_are_told_every_default() -> None:
    """A model's own sampling defaults on a server do not become the program's."""
    usual = {"top_k": -1, "min_p": 0.0}

    for name in ("vllm", "sglang"):
        assert sent(name).items() >= {**usual, "repetition_penalty": 1.0}.items()
    assert sent("llama-server").items() >= {**usual, "repeat_penalty": 1.0}.items()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_supported_field_is_sent(dialect: str) -> None:
    """A field that is set is in the payload under the dialect's name for it."""
    values: Mapping[str, Any] = {
        "temperature": 0.5,
        "top_p": 0.5,
        "n": 2,
        "stop": ("x",),
        "frequency_penalty": 0.5,
        "presence_penalty": 0.5,
        "seed": 7,
        "logit_bias": {5: 1.0},
        "top_k": 3,
        "min_p": 0.25,
        "repetition_penalty": 1.5,
        "stop_token_ids": (5,),
        "min_new_tokens": 2,
        "ignore_eos": True,
        "stop_regex": ("a",),
    }
    fields = DIALECTS[dialect].fields
    written = sent(dialect, chat(), **{name: values[name] for name in fields})

    assert {name: written[wire] for name, wire in fields.items()} == {
        name: values[name] for name in fields
    }


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_other_field_is_refused_by_name(dialect: str) -> None:
    """What a dialect cannot carry is listed, and refused where it is set."""
    unsupported = DIALECTS[dialect].capabilities.unsupported_sampling

    assert "logprob_start_len" in unsupported
    with pytest.raises(UnsupportedFeatureError, match="logprob_start_len=3") as caught:
        sent(dialect, chat(), logprob_start_len=3)
    assert repr(dialect) in str(caught.value)


@pytest.mark.parametrize(
    ("dialect", "prompt", "constraint", "expected"),
    [
        ("vllm", PLAIN, {"regex": "a+"}, {"structured_outputs": {"regex": "a+"}}),
        ("sglang", PLAIN, {"regex": "a+"}, {"regex": "a+"}),
        ("llama-server", PLAIN, {"regex": "a+"}, {"grammar": 'root ::= "a"+'}),
        ("vllm", PLAIN, {"ebnf": "g"}, {"structured_outputs": {"grammar": "g"}}),
        ("sglang", PLAIN, {"ebnf": "g"}, {"ebnf": "g"}),
        ("llama-server", PLAIN, {"ebnf": "g"}, {"grammar": "g"}),
        (
            "vllm",
            PLAIN,
            {"json_schema": SCHEMA},
            {"structured_outputs": {"json": {"type": "object"}}},
        ),
        ("sglang", PLAIN, {"json_schema": SCHEMA}, {"json_schema": SCHEMA}),
        (
            "llama-server",
            PLAIN,
            {"json_schema": SCHEMA},
            {"json_schema": {"type": "object"}},
        ),
        (
            "openai",
            chat(),
            {"json_schema": SCHEMA},
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {
                        "name": "answer",
                        "schema": {"type": "object"},
                        "strict": True,
                    },
                }
            },
        ),
    ],
)
def test_a_constraint_stands_where_the_server_reads_it(
    dialect: str,
    prompt: Prompt,
    constraint: dict[str, str],
    expected: dict[str, Any],
) -> None:
    """Each dialect has its own field for patterns, grammars and schemas."""
    assert sent(dialect, prompt, **constraint).items() >= expected.items()


@pytest.mark.parametrize(
    ("dialect", "prompt", "sampling", "feature"),
    [
        ("generic", chat(), {"regex": "a"}, "regex"),
        ("openai", chat(), {"ebnf": "a"}, "ebnf"),
        ("generic", PLAIN, {"json_schema": SCHEMA}, "json_schema in a prompt without"),
        ("llama-server", chat("x"), {"json_schema": SCHEMA}, "json_schema after text"),
        ("llama-server", PLAIN, {"regex": "(?=a)a"}, "no grammar"),
        ("openai", chat("Pre"), {}, "text before a generation inside .*'Pre'"),
        ("vllm", Prompt().with_text("loose ").with_role_begin("user"), {}, "'loose'"),
        ("vllm", Prompt().with_role_begin("user"), {}, r"inside user\(\)"),
        (
            "vllm",
            Prompt().with_role_begin("user").with_role_end("user"),
            {},
            r"outside assistant\(\)",
        ),
        ("vllm", Prompt().with_image(ImageData(data=b"x")), {}, "a video outside"),
    ],
)
def test_what_cannot_be_exact_is_refused_by_name(
    dialect: str, prompt: Prompt, sampling: dict[str, str], feature: str
) -> None:
    """Nothing of a program is dropped in silence."""
    with pytest.raises(UnsupportedFeatureError, match=feature):
        sent(dialect, prompt, **sampling)


def test_text_before_a_generation_is_continued() -> None:
    """Engines continue the last message when told; llama-server does so untold."""
    last = {"role": "assistant", "content": "Sure: "}
    vllm = sent("vllm", chat("Sure: "))

    assert vllm["messages"][-1] == last
    assert vllm["continue_final_message"] is True
    assert vllm["add_generation_prompt"] is False
    assert sent("llama-server", chat("Sure: "))["messages"][-1] == last
    assert "continue_final_message" not in sent("llama-server", chat("Sure: "))


def test_images_go_into_messages() -> None:
    """An image stands among the parts of its turn."""
    asked = Prompt().with_role_begin("user").with_image(ImageData(data=b"abc"))
    asked = asked.with_text("what?").with_role_end("user").with_role_begin("assistant")
    content = sent("openai", asked)["messages"][0]["content"]

    assert content == [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,YWJj"}},
        {"type": "text", "text": "what?"},
    ]


def film(*frames: int | None) -> Prompt:
    """Return a chat about videos of so many frames."""
    asked = Prompt().with_role_begin("user")
    for number in frames:
        asked = asked.with_image(VideoData(data=b"abc", num_frames=number))
    return asked.with_role_end("user").with_role_begin("assistant")


def test_videos_go_into_messages() -> None:
    """A video stands among the parts of its turn, in the shape that vLLM reads."""
    url = {"url": "data:video/mp4;base64,YWJj"}

    for name in ("vllm", "sglang"):
        content = sent(name, film(None, None))["messages"][0]["content"]
        assert content == [{"type": "video_url", "video_url": url}] * 2
    assert sent("vllm", film(4, 4))["media_io_kwargs"] == {"video": {"num_frames": 4}}
    assert "media_io_kwargs" not in sent("vllm", film(None))


@pytest.mark.parametrize(
    ("name", "frames", "feature"),
    [
        ("openai", (None,), "a video"),
        ("sglang", (4,), "num_frames of a video"),
        ("vllm", (4, 8), "different num_frames"),
    ],
)
def test_videos_that_cannot_be_carried_are_refused(
    name: str, frames: tuple[int | None, ...], feature: str
) -> None:
    """A server that reads no videos, or frames as it likes, is not asked for them."""
    with pytest.raises(UnsupportedFeatureError, match=feature):
        sent(name, film(*frames))


def test_extra_fields_are_sent_as_they_are() -> None:
    """What an author adds wins over what is written for it."""
    extra = {"service_tier": "flex", "temperature": 0.25}

    assert sent("openai", chat(), extra=extra).items() >= extra.items()


def test_log_probabilities_are_asked_for_in_each_endpoints_way() -> None:
    """Chat has a switch and a number, completions have a number."""
    wanted: dict[str, Any] = {"return_logprob": True, "top_logprobs_num": 2}

    assert (
        sent("vllm", chat(), **wanted).items()
        >= {
            "logprobs": True,
            "top_logprobs": 2,
        }.items()
    )
    assert sent("vllm", PLAIN, **wanted)["logprobs"] == 2
    assert sent("vllm", PLAIN, return_logprob=True)["logprobs"] == 1
