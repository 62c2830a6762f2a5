"""The backend for SGLang's native server."""

import json
from typing import Any

import pytest

from sglrun.backends.base import BackendOptions, Request, Secret, SelectRequest
from sglrun.backends.sglang import SGLangBackend, create
from sglrun.errors import (
    AuthenticationError,
    BackendTimeoutError,
    BackendUnreachableError,
    BadRequestError,
    ConfigError,
    ModelNotFoundError,
    UnsupportedFeatureError,
)
from sglrun.lang.prompt import Prompt
from sglrun.lang.sampling import DEFAULTS, SamplingParams
from tests import stand_in as faults
from tests.stand_in import StandIn

PLAIN = Prompt().with_text("Q: hi\nA:")


def request(prompt: Prompt = PLAIN, **sampling: Any) -> Request:
    return Request(prompt=prompt, sampling=SamplingParams.of(**sampling).over(DEFAULTS))


def connected(server: StandIn, **options: Any) -> SGLangBackend:
    given = {"chat_template": "default", **options}
    return create(BackendOptions(url=server.url, **given))


@pytest.mark.parametrize("form", ["cumulative", "incremental"])
def test_a_server_streams_in_either_form(stand_in: StandIn, form: Any) -> None:
    """A whole request streams, and its text is exact."""
    stand_in.model.answer = " alpha beta gamma"
    stand_in.model.stream_form = form
    pieces: list[str] = []
    completion = connected(stand_in).generate(request(), pieces.append)

    assert completion.samples[0].text == "".join(pieces) == " alpha beta gamma"
    assert len(pieces) == 3


@pytest.mark.parametrize("old", [True, False])
def test_the_model_is_known_from_the_server(stand_in: StandIn, *, old: bool) -> None:
    """Name and template come from the new address or the old one."""
    stand_in.model.old_info = old
    stand_in.model.model_path = "models/Qwen2.5-7B-Instruct"
    with create(BackendOptions(url=f"{stand_in.url}/")) as backend:
        assert backend.model == "stand-in"
        assert backend.chat_template.name == "qwen"


def test_an_unknown_model_path_warns(stand_in: StandIn) -> None:
    """A template that is only guessed is said."""
    with pytest.warns(UserWarning, match="x/none"):
        create(BackendOptions(url=stand_in.url)).close()


def test_a_template_can_be_named(stand_in: StandIn) -> None:
    """A name wins over the model's path, and a wrong one is refused."""
    assert connected(stand_in, chat_template="chatml").chat_template.name == "chatml"
    with pytest.raises(ConfigError, match="unknown chat template 'x'"):
        connected(stand_in, chat_template="x")


def test_another_model_is_refused(stand_in: StandIn) -> None:
    """A server that would answer with another model is not used."""
    connected(stand_in, model="stand-in").close()
    connected(stand_in, model="x/none").close()

    with pytest.raises(ModelNotFoundError, match="serves 'stand-in', not 'other'"):
        connected(stand_in, model="other")


def test_a_url_is_needed() -> None:
    """Without a URL there is nothing to ask."""
    with pytest.raises(ConfigError, match="--url"):
        create(BackendOptions())


def test_what_is_no_sglang_server_is_told(stand_in: StandIn) -> None:
    """Another server is named as such, with the backend that suits it."""
    stand_in.model.kind = "vllm"

    with pytest.raises(BadRequestError, match=r"no SGLang server.*--backend openai"):
        connected(stand_in)


def test_nothing_there_is_unreachable() -> None:
    """A server that is not there is found when the backend is made."""
    with pytest.raises(BackendUnreachableError, match="nothing listens there"):
        create(BackendOptions(url="http://127.0.0.1:1"))


def test_a_key_is_sent(stand_in: StandIn) -> None:
    """The right key is taken, a wrong one is found at once."""
    stand_in.api_key = "sk-right"
    connected(stand_in, api_key=Secret(value="sk-right")).close()

    with pytest.raises(AuthenticationError):
        connected(stand_in)


def test_a_router_is_recognised(stand_in: StandIn) -> None:
    """Behind a router, what it would drop is unsupported, and texts go one by one."""
    stand_in.fail_always(
        faults.raw(200, b'{"router_manager": true}', "text/plain"), "/get_server_info"
    )
    stand_in.model.list_text = False
    backend = connected(stand_in)
    backend.select(SelectRequest(prompt=PLAIN, choices=(" a", " b")))

    assert backend.capabilities.unsupported_sampling == {"stop_regex", "logit_bias"}
    assert all(isinstance(sent["text"], str) for sent in stand_in.generations)
    with pytest.raises(UnsupportedFeatureError, match=r"the router at .*stop_regex"):
        backend.generate(request(stop_regex="a+"))


def aborted(server: StandIn) -> list[object]:
    return [e.payload["rid"] for e in server.log if e.path == "/abort_request"]


@pytest.mark.parametrize("on_text", [None, print])
def test_a_generation_that_takes_too_long_is_ended_there(
    stand_in: StandIn, on_text: Any
) -> None:
    """After a timeout the server is told by the request's name to stop."""
    backend = connected(stand_in, timeout_s=0.3)
    stand_in.fail(faults.hang, path="/generate")
    with pytest.raises(BackendTimeoutError):
        backend.generate(request(), on_text)

    assert aborted(stand_in) == [stand_in.generations[0]["rid"]]


def test_a_stream_that_nobody_reads_on_is_ended_there(stand_in: StandIn) -> None:
    """Whoever leaves a stream ends the generation."""
    stand_in.model.answer = " a b c"

    def leave(_: str) -> None:
        raise KeyboardInterrupt

    backend = connected(stand_in)
    with pytest.raises(KeyboardInterrupt):
        backend.generate(request(), leave)

    assert aborted(stand_in) == [stand_in.generations[0]["rid"]]


def test_a_generation_that_ended_is_not_ended_again(stand_in: StandIn) -> None:
    """Neither an answer nor a refusal is followed by more."""
    backend = connected(stand_in)
    backend.generate(request())
    backend.generate(request(n=2))
    with pytest.raises(BadRequestError):
        backend.generate(request(Prompt().with_text("boom")))

    assert aborted(stand_in) == []
    assert len({str(sent.get("rid")) for sent in stand_in.generations}) == 3


@pytest.mark.parametrize("has_tokenize", [True, False])
def test_tokens_are_counted_where_the_server_can(
    stand_in: StandIn, *, has_tokenize: bool
) -> None:
    """The server's tokenizer counts; without one it is an estimate and says so."""
    stand_in.model.has_tokenize = has_tokenize
    backend = connected(stand_in)

    assert backend.capabilities.token_counts is has_tokenize
    assert backend.count_tokens("one two three") == (3 if has_tokenize else 4)


def test_the_cache_can_be_flushed(stand_in: StandIn) -> None:
    """Flushing works, and a server that is busy refuses without an error."""
    backend = connected(stand_in)
    flushed = backend.flush_cache()
    stand_in.fail(faults.status(400))

    assert flushed
    assert not backend.flush_cache()
    assert json.dumps(dict(backend.get_server_info())) == '{"version": "0.5.23"}'
