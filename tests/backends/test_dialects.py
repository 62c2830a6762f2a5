"""The dialects of public services: what is sent to each, and what is refused."""

from typing import Any

import pytest

from sglrun.backends.base import BackendOptions, Request, SelectRequest
from sglrun.backends.dialects import DIALECTS
from sglrun.backends.hosts import HOSTS
from sglrun.backends.openai import create
from sglrun.backends.openai_choice import constrained
from sglrun.backends.openai_payload import payload, stream_fields
from sglrun.errors import ResponseError, UnsupportedFeatureError
from sglrun.lang.prompt import Prompt
from sglrun.lang.sampling import DEFAULTS, SamplingParams
from tests.stand_in import StandIn


def chat(answer: str = "") -> Prompt:
    asked = Prompt().with_role_begin("user").with_text("hi").with_role_end("user")
    return asked.with_role_begin("assistant").with_text(answer)


def request(prompt: Prompt, **sampling: Any) -> Request:
    return Request(prompt=prompt, sampling=SamplingParams.of(**sampling).over(DEFAULTS))


def sent(name: str, prompt: Prompt, **sampling: Any) -> dict[str, Any]:
    return payload(DIALECTS[name], "m", request(prompt, **sampling))


def test_hosts_speak_dialects() -> None:
    """Every known host has a dialect that there is."""
    assert {host.dialect for host in HOSTS.values()} <= DIALECTS.keys()


def test_mistral_marks_what_it_is_to_continue() -> None:
    """The begun answer is marked, the seed has its own name, usage is not asked for."""
    asked = sent("mistral", chat("Sure"), seed=3)

    assert asked["messages"][-1] == {
        "role": "assistant",
        "content": "Sure",
        "prefix": True,
    }
    assert asked["random_seed"] == 3
    assert stream_fields(DIALECTS["mistral"]) == {"stream": True}


@pytest.mark.parametrize("name", ["groq", "openrouter"])
def test_some_take_a_begun_answer_up(name: str) -> None:
    """The begun answer is the last message, and needs no mark."""
    asked = sent(name, chat("Sure"))

    assert asked["messages"][-1] == {"role": "assistant", "content": "Sure"}
    assert "continue_final_message" not in asked


def test_groq_knows_the_new_limit() -> None:
    """Its older name for the limit is on its way out."""
    assert sent("groq", chat(), max_new_tokens=5)["max_completion_tokens"] == 5


def test_openrouter_asks_only_hosts_that_honour_all() -> None:
    """No host behind it may leave out what it does not know."""
    asked = sent("openrouter", chat(), top_k=3)

    assert asked["provider"] == {"require_parameters": True}
    assert asked["top_k"] == 3


@pytest.mark.parametrize(
    ("name", "sampling"),
    [
        ("groq", {"return_logprob": True}),
        ("groq", {"frequency_penalty": 0.5}),
        ("mistral", {"logit_bias": {5: 1.0}}),
        ("deepseek", {"json_schema": "{}"}),
        ("deepseek", {"seed": 1}),
        ("together", {"regex": "a"}),
        ("openrouter", {"ebnf": "root ::= 'a'"}),
    ],
)
def test_what_a_service_has_not_is_refused(name: str, sampling: Any) -> None:
    """The name of the field is in the error."""
    with pytest.raises(UnsupportedFeatureError, match=next(iter(sampling))):
        sent(name, chat(), **sampling)


def test_without_schemas_nothing_can_be_chosen() -> None:
    """A service that holds answers to no schema cannot be made to take an option."""
    asked = SelectRequest(prompt=chat(), choices=("a", "b"))

    assert not DIALECTS["deepseek"].capabilities.select
    with pytest.raises(UnsupportedFeatureError, match="select"):
        constrained(DIALECTS["deepseek"], "m", asked)


def test_an_empty_prompt_is_never_sent_to_sglang() -> None:
    """It would end the server."""
    with pytest.raises(UnsupportedFeatureError, match="empty prompt"):
        sent("sglang", Prompt())


def one_text(handler: Any) -> None:
    choice = {"index": 0, "text": " OUT", "finish_reason": "stop"}
    handler.send_json(200, {"choices": [choice], "usage": {"prompt_tokens": 2}})


def test_samples_that_a_server_does_not_count_are_asked_for_alone(
    stand_in: StandIn,
) -> None:
    """A server that gives one text whatever is asked is asked as often as needed."""
    stand_in.model.kind = "vllm"
    with create(BackendOptions(url=stand_in.url)) as backend:
        stand_in.fail_always(one_text, "/v1/completions")
        asked = request(Prompt().with_text("hi"), n=3, seed=7)
        first = backend.generate(asked)
        again = backend.generate(asked)
    seeds = [each["seed"] for each in stand_in.generations]

    assert len(first.samples) == len(again.samples) == 3
    assert first.usage.prompt_tokens == 6
    assert [each.get("n") for each in stand_in.generations] == [3, *[None] * 6]
    assert sorted(seeds[1:4]) == sorted(seeds[4:]) == [7, 8, 9]


def test_one_wrong_answer_is_not_asked_for_twice(stand_in: StandIn) -> None:
    """With one sample nothing is to be gained by asking again."""
    stand_in.model.kind = "vllm"
    with create(BackendOptions(url=stand_in.url)) as backend:
        none: dict[str, object] = {"choices": []}
        stand_in.fail_always(lambda h: h.send_json(200, none), "/v1/completions")
        with pytest.raises(ResponseError):
            backend.generate(request(Prompt().with_text("hi")))

    assert len(stand_in.generations) == 1


@pytest.mark.parametrize(
    ("model", "temperature", "has_room"),
    [("gpt-4.1-mini", 0.0, False), ("o3", None, True), ("gpt-5-mini", None, True)],
)
def test_models_that_think_have_room_for_it(
    model: str, temperature: float | None, *, has_room: bool
) -> None:
    """Such a model refuses another temperature, and thinks before it chooses."""
    asked = SelectRequest(prompt=chat(), choices=("a", "b"))
    written = constrained(DIALECTS["openai"].of_model(model), model, asked)
    limit = written["max_completion_tokens"]

    assert written.get("temperature") == temperature
    assert isinstance(limit, int)
    assert (limit > 1000) == has_room


ALL = {
    "temperature": 0.5,
    "top_p": 0.9,
    "top_k": 7,
    "min_p": 0.1,
    "n": 2,
    "seed": 3,
    "stop": ("X",),
    "frequency_penalty": 0.1,
    "presence_penalty": 0.2,
    "repetition_penalty": 1.1,
    "logit_bias": {5: 1.0},
    "min_new_tokens": 2,
    "ignore_eos": True,
    "stop_token_ids": (9,),
    "stop_regex": ("a+",),
    "max_new_tokens": 20,
    "return_logprob": True,
    "top_logprobs_num": 4,
}
COMMON = {
    "model": "m",
    "temperature": 0.5,
    "top_p": 0.9,
    "n": 2,
    "seed": 3,
    "stop": ("X",),
    "frequency_penalty": 0.1,
    "presence_penalty": 0.2,
    "logit_bias": {5: 1.0},
}
ENGINE = {"top_k": 7, "min_p": 0.1, "repetition_penalty": 1.1}
SERVED = {"min_tokens": 2, "ignore_eos": True, "stop_token_ids": (9,)}
TOLD = {"logprobs": True, "top_logprobs": 4}


def without(*names: str) -> dict[str, Any]:
    return {name: value for name, value in COMMON.items() if name not in names}


# What each is sent of all that can be asked for in a chat; the rest is refused.
SENT: dict[str, dict[str, Any]] = {
    "openai": {**COMMON, **TOLD, "max_completion_tokens": 20},
    "vllm": {**COMMON, **ENGINE, **SERVED, **TOLD, "max_tokens": 20},
    "sglang": {
        **COMMON,
        **ENGINE,
        **SERVED,
        **TOLD,
        "max_tokens": 20,
        "stop_regex": ("a+",),
    },
    "llama-server": {
        **COMMON,
        **TOLD,
        "max_tokens": 20,
        "top_k": 7,
        "min_p": 0.1,
        "repeat_penalty": 1.1,
        "ignore_eos": True,
        "cache_prompt": True,
        "repeat_last_n": 4096,
    },
    "ollama": {**without("n", "logit_bias"), **TOLD, "max_tokens": 20},
    "groq": {
        **without("n", "frequency_penalty", "presence_penalty", "logit_bias"),
        "max_completion_tokens": 20,
    },
    "mistral": {**without("seed", "logit_bias"), "random_seed": 3, "max_tokens": 20},
    "deepseek": {**without("n", "seed", "logit_bias"), **TOLD, "max_tokens": 20},
    "deepseek-beta": {**without("n", "seed", "logit_bias"), **TOLD, "max_tokens": 20},
    "openrouter": {
        **without("n"),
        **ENGINE,
        **TOLD,
        "max_tokens": 20,
        "provider": {"require_parameters": True},
    },
    "together": {**COMMON, **ENGINE, "logprobs": 4, "max_tokens": 20},
    "generic": {**COMMON, **TOLD, "max_tokens": 20},
}


@pytest.mark.parametrize("name", DIALECTS)
def test_each_dialect_has_its_payload(name: str) -> None:
    """Each is sent what it knows under its own names, and nothing else."""
    dialect = DIALECTS[name]
    carried = ALL.keys() - dialect.capabilities.unsupported_sampling
    asked = {key: value for key, value in ALL.items() if key in carried}
    written = sent(name, chat(), **asked)

    assert written.pop("messages") == [{"role": "user", "content": "hi"}]
    assert written == SENT[name]
    for refused in ALL.keys() - carried:
        with pytest.raises(UnsupportedFeatureError, match=refused):
            sent(name, chat(), **{refused: ALL[refused]})


PREFILLED: dict[str, dict[str, Any]] = {
    "vllm": {"continue_final_message": True, "add_generation_prompt": False},
    "sglang": {"continue_final_message": True},
    "llama-server": {},
    "groq": {},
    "mistral": {},
    "deepseek-beta": {},
    "openrouter": {},
}


@pytest.mark.parametrize("name", DIALECTS)
def test_each_dialect_continues_in_its_way_or_refuses(name: str) -> None:
    """A begun answer is the last message, with what the server wants beside it."""
    if name not in PREFILLED:
        with pytest.raises(UnsupportedFeatureError, match="text before a generation"):
            sent(name, chat("Sure"))
        return
    written = sent(name, chat("Sure"))
    usual = sent(name, chat())
    mark = {"prefix": True} if name in ("mistral", "deepseek-beta") else {}

    assert written["messages"][-1] == {"role": "assistant", "content": "Sure", **mark}
    assert {k: v for k, v in written.items() if k not in usual} == PREFILLED[name]


def test_ollama_has_no_prompts_without_roles() -> None:
    """It would write one into the model's template, as if a user had said it."""
    with pytest.raises(UnsupportedFeatureError, match="without roles"):
        sent("ollama", Prompt().with_text("Once"))
