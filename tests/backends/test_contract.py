"""The contract of backends: one suite, and every backend passes it.

HTTP backends speak to the stand-in server. Another backend joins with one entry in
``MAKERS``.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from sglrun.backends import create_backend
from sglrun.backends.base import Backend, BackendOptions, Request, SelectRequest
from sglrun.backends.openai import OpenAIBackend
from sglrun.errors import BadRequestError, UnsupportedFeatureError
from sglrun.lang.prompt import Prompt
from sglrun.lang.sampling import DEFAULTS, SamplingParams
from tests.stand_in import StandIn
from tests.stand_in_model import Kind, PretendModel

ODD_VALUES: Mapping[str, Any] = {
    "min_new_tokens": 3,
    "stop_token_ids": (5,),
    "stop_regex": ("a+",),
    "top_k": 7,
    "min_p": 0.5,
    "repetition_penalty": 1.5,
    "ignore_eos": True,
    "logit_bias": {5: 1.0},
    "logprob_start_len": 3,
    "n": 2,
    "seed": 1,
    "frequency_penalty": 0.5,
    "presence_penalty": 0.5,
    "return_logprob": True,
    "top_logprobs_num": 2,
    "return_text_in_logprobs": True,
}

# These say more about another that is asked for.
_WITH_LOGPROBS = {"logprob_start_len", "top_logprobs_num", "return_text_in_logprobs"}


def mock(_: ExitStack) -> Backend:
    return create_backend("mock", BackendOptions())


def numbered(prompt: str, _: object) -> str:
    return f" OUT {(re.findall(r'[0-9]+', prompt) or ['none'])[-1]}"


def over_http(
    name: str, kind: Kind, *, servers: int = 1
) -> Callable[[ExitStack], Backend]:
    def make(stack: ExitStack) -> Backend:
        model = PretendModel(kind=kind, answer=numbered)
        url, *more = (
            stack.enter_context(StandIn(model=model)).url for _ in range(servers)
        )
        options = BackendOptions(url=url, more_urls=tuple(more), chat_template="chatml")
        return create_backend(name, options)

    return make


MAKERS: Mapping[str, Callable[[ExitStack], Backend]] = {
    "mock": mock,
    "sglang": over_http("sglang", "sglang"),
    "openai-vllm": over_http("openai", "vllm"),
    "openai-sglang": over_http("openai", "sglang"),
    "openai-llama": over_http("openai", "llama-server"),
    "openai-generic": over_http("openai", "openai"),
    "anthropic": over_http("anthropic", "anthropic"),
    "several": over_http("sglang", "sglang", servers=2),
}


@pytest.fixture(params=MAKERS)
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    """Each backend in turn."""
    with ExitStack() as stack:
        made = MAKERS[request.param](stack)
        yield made
        made.close()
        made.close()


def takes_plain(backend: Backend) -> bool:
    return backend.capabilities.completion


def only_chat_chooses(backend: Backend) -> bool:
    by_json = isinstance(backend, OpenAIBackend) and backend.dialect.choice == "json"
    return by_json or not takes_plain(backend)


def plain(backend: Backend, text: str = "Q: hi\nA:") -> Prompt:
    return Prompt(template=backend.chat_template).with_text(text)


def chat(backend: Backend, answer: str = "") -> Prompt:
    asked = Prompt(template=backend.chat_template).with_role_begin("user")
    asked = asked.with_text("hi there").with_role_end("user")
    return asked.with_role_begin("assistant").with_text(answer)


def suited(backend: Backend, text: str = "Q: hi\nA:") -> Prompt:
    """Return *text* without roles, or as a user's turn where roles are a must."""
    if backend.capabilities.completion:
        return plain(backend, text)
    asked = Prompt(template=backend.chat_template).with_role_begin("user")
    asked = asked.with_text(text).with_role_end("user")
    return asked.with_role_begin("assistant")


def request(prompt: Prompt, **sampling: Any) -> Request:
    given = {"temperature": 0.0, "max_new_tokens": 24, **sampling}
    return Request(prompt=prompt, sampling=SamplingParams.of(**given).over(DEFAULTS))


@pytest.mark.parametrize("prompt_of", [plain, chat])
def test_a_prompt_is_completed(
    backend: Backend, prompt_of: Callable[[Backend], Prompt]
) -> None:
    """A prompt, with roles or without, gets a text, a reason and counts."""
    if prompt_of is plain and not takes_plain(backend):
        with pytest.raises(UnsupportedFeatureError, match="without roles"):
            backend.generate(request(prompt_of(backend)))
        return
    completion = backend.generate(request(prompt_of(backend)))
    (sample,) = completion.samples

    assert sample.text
    assert sample.finish_reason in ("stop", "length")
    assert completion.usage.requests == 1
    assert completion.usage.prompt_tokens > 0
    assert completion.usage.completion_tokens > 0


def test_any_character_may_stand_in_a_prompt(backend: Backend) -> None:
    """Emoji, nulls and halves of characters are the model's to read."""
    prompt = suited(backend, "\U0001f600 \x00 \ud83d \u2028")

    assert backend.generate(request(prompt)).samples[0].text


def test_no_tokens_is_no_text(backend: Backend) -> None:
    """A limit of 0 reads the prompt and gives an empty text."""
    completion = backend.generate(request(suited(backend), max_new_tokens=0))

    assert [s.text for s in completion.samples] == [""]
    assert completion.samples[0].finish_reason == "length"


def test_a_stop_string_is_cut(backend: Backend) -> None:
    """The text ends before the stop string, and the reason is ``stop``."""
    whole = backend.generate(request(suited(backend))).samples[0].text
    stop = whole[-2:]
    cut = backend.generate(request(suited(backend), stop=stop)).samples[0]

    assert cut.text == whole[:-2]
    assert cut.finish_reason == "stop"


def test_samples_are_as_many_as_asked(backend: Backend) -> None:
    """``n`` gives as many samples; the prompt is counted as often as it is read."""
    if "n" in backend.capabilities.unsupported_sampling:
        pytest.skip("n is refused")
    one = backend.generate(request(suited(backend))).usage
    three = backend.generate(request(suited(backend), n=3))

    assert len(three.samples) == 3
    assert three.usage.prompt_tokens == one.prompt_tokens * three.usage.requests


@pytest.mark.parametrize("prompt_of", [plain, chat])
def test_pieces_joined_are_the_text(
    backend: Backend, prompt_of: Callable[[Backend], Prompt]
) -> None:
    """A streamed generation is the same as one that is not, and counts the same."""
    if prompt_of is plain and not takes_plain(backend):
        pytest.skip("prompts without roles are refused")
    asked = request(prompt_of(backend))
    pieces: list[str] = []
    streamed = backend.generate(asked, pieces.append)
    whole = backend.generate(asked)

    assert "".join(pieces) == streamed.samples[0].text == whole.samples[0].text
    assert streamed.samples[0].finish_reason == whole.samples[0].finish_reason
    assert streamed.usage.completion_tokens == whole.usage.completion_tokens


@pytest.mark.parametrize("stream", [False, True])
def test_text_in_the_assistant_turn_is_continued(
    backend: Backend, *, stream: bool
) -> None:
    """The answer is what follows the text, without the text; or it is refused."""
    asked = request(chat(backend, "Sure, it is"))
    pieces: list[str] = []
    on_text = pieces.append if stream else None
    if not backend.capabilities.prefill:
        with pytest.raises(UnsupportedFeatureError, match="Sure, it is"):
            backend.generate(asked, on_text)
        return
    text = backend.generate(asked, on_text).samples[0].text

    assert text
    assert "Sure" not in text
    assert "".join(pieces) == (text if stream else "")


def test_a_pattern_is_kept(backend: Backend) -> None:
    """A generation held to a pattern matches it; or the pattern is refused."""
    asked = request(chat(backend), regex=r"[0-9]{3}-[0-9]{4}")
    if not backend.capabilities.regex:
        with pytest.raises(UnsupportedFeatureError, match="regex"):
            backend.generate(asked)
        return

    text = backend.generate(asked).samples[0].text

    assert re.fullmatch(r"[0-9]{3}-[0-9]{4}", text)


def test_a_schema_is_kept(backend: Backend) -> None:
    """A generation held to a schema is JSON that fits it; or that is refused."""
    whole = {"type": "integer", "minimum": 0, "maximum": 9}
    schema = {
        "type": "object",
        "properties": {"a": whole},
        "required": ["a"],
        "additionalProperties": False,
    }
    asked = request(chat(backend), json_schema=json.dumps(schema), max_new_tokens=64)
    value = json.loads(backend.generate(asked).samples[0].text)

    assert isinstance(value["a"], int)


@pytest.mark.parametrize("prompt_of", [plain, chat])
def test_an_option_is_taken(
    backend: Backend, prompt_of: Callable[[Backend], Prompt]
) -> None:
    """Every option has a score of its own tokens, or one of them is written."""
    if not backend.capabilities.select:
        pytest.skip("select is refused")
    asked = SelectRequest(prompt=prompt_of(backend), choices=(" yes", " no way"))
    if not asked.prompt.is_chat and only_chat_chooses(backend):
        with pytest.raises(UnsupportedFeatureError, match="without roles"):
            backend.select(asked)
        return
    selection = backend.select(asked)

    assert selection.usage.prompt_tokens > 0
    assert [s.choice for s in selection.scores] in ([], [" yes", " no way"])
    assert all(score.tokens for score in selection.scores)
    assert (selection.chosen in asked.choices) == (not selection.scores)


def test_unconditional_scores_match_the_tokens(backend: Backend) -> None:
    """The same tokens are scored without the prompt; or that is refused."""
    asked = SelectRequest(
        prompt=suited(backend), choices=(" yes", " no way"), unconditional=True
    )
    if not backend.capabilities.choice_scores:
        why = "log-probabilities" if backend.capabilities.select else "select among"
        with pytest.raises(UnsupportedFeatureError, match=why):
            backend.select(asked)
        return

    for score in backend.select(asked).scores:
        assert score.unconditional is not None
        assert len(score.unconditional) == len(score.tokens)
        assert score.unconditional[0] == 0


def test_a_cached_prefix_is_not_read_again(backend: Backend) -> None:
    """After ``cache_prefix``, prompts that begin with it report cached tokens."""
    if not takes_plain(backend):
        pytest.skip("only prompts with roles are cached")
    prefix = plain(backend, "one two three four ")
    if not backend.capabilities.prefix_cache:
        with pytest.raises(UnsupportedFeatureError, match="cache"):
            backend.cache_prefix(prefix)
        return
    spent = backend.cache_prefix(prefix)
    usage = backend.generate(request(suited(backend, "one two three four five"))).usage

    assert spent.prompt_tokens > 0
    assert usage.cached_tokens > 0


def test_a_prefix_may_end_inside_a_turn(backend: Backend) -> None:
    """The shared prefix of a chat may end in the middle of a user's turn."""
    if not backend.capabilities.prefix_cache:
        pytest.skip("there is no prefix cache")
    prefix = Prompt(template=backend.chat_template).with_role_begin("user")
    usage = backend.cache_prefix(prefix.with_text("Few shots: "))

    assert usage.prompt_tokens > 0


def test_what_cannot_be_carried_is_refused_by_name(backend: Backend) -> None:
    """A sampling field that the backend lists as unsupported is never dropped."""
    for name in sorted(backend.capabilities.unsupported_sampling & ODD_VALUES.keys()):
        with pytest.raises(UnsupportedFeatureError, match=name):
            backend.generate(request(suited(backend), **{name: ODD_VALUES[name]}))


def test_what_can_be_carried_is_not_refused(backend: Backend) -> None:
    """Every other sampling field is taken."""
    if not backend.capabilities.completion:
        pytest.skip("prompts without roles are refused")
    taken = ODD_VALUES.keys() - backend.capabilities.unsupported_sampling
    for name in sorted(taken - _WITH_LOGPROBS):
        backend.generate(request(suited(backend), **{name: ODD_VALUES[name]}))


def test_log_probabilities_are_reported(backend: Backend) -> None:
    """``return_logprob`` gives a triple for each generated token."""
    if "return_logprob" in backend.capabilities.unsupported_sampling:
        pytest.skip("log-probabilities are refused")
    for prompt in (chat(backend), suited(backend)):
        asked = request(prompt, return_logprob=True)
        sample = backend.generate(asked).samples[0]
        triples = sample.meta_info["output_token_logprobs"]

        assert isinstance(triples, list)
        told = "".join(text or "" for _, _, text in triples)
        # The token that ends the answer may be among them.
        assert told.startswith(sample.text) or not told


def test_tokens_are_counted(backend: Backend) -> None:
    """A longer text has more tokens, exactly or by estimate."""
    assert backend.count_tokens("a b c " * 50) > backend.count_tokens("a b c") > 0


def test_many_threads_ask_at_once(backend: Backend) -> None:
    """Answers of requests at the same time are not mixed up."""
    asked = [request(suited(backend, f"Q: number {i}\nA:")) for i in range(24)]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(backend.generate, asked))

    alone = [backend.generate(one).samples[0].text for one in asked]
    assert [c.samples[0].text for c in together] == alone
    assert len(set(alone)) == len(alone)


def test_a_backend_tells_about_itself(backend: Backend) -> None:
    """It has a name, a model and something to say."""
    assert backend.kind
    assert backend.model
    assert backend.get_server_info()
    assert isinstance(backend.flush_cache(), bool)


def test_a_refused_prompt_is_the_requests_fault(backend: Backend) -> None:
    """A 400 is one row's error: not retryable, not fatal, with the server's words."""
    if backend.kind == "mock":
        pytest.skip("the mock refuses nothing")

    with pytest.raises(BadRequestError, match="the prompt contains boom") as caught:
        backend.generate(request(suited(backend, "boom")))

    assert not caught.value.retryable
    assert not caught.value.fatal
