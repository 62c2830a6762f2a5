"""The backends that programs name, and lazy backends."""

from collections.abc import Iterator
from typing import Any

import pytest

from sglrun.backends.base import Backend, Capabilities, Request
from sglrun.backends.mock import MockBackend
from sglrun.errors import (
    BackendUnreachableError,
    ConfigError,
    ProgramError,
    UnsupportedFeatureError,
)
from sglrun.interpreter.global_config import (
    flush_cache,
    get_server_info,
    global_config,
    set_default_backend,
)
from sglrun.interpreter.sglang.lazy_backend import LazyBackend
from sglrun.interpreter.sglang.named_backends import (
    Anthropic,
    Crusoe,
    LiteLLM,
    OpenAI,
    RuntimeEndpoint,
    VertexAI,
)
from sglrun.lang.chat_template import get_chat_template
from sglrun.lang.prompt import Prompt
from sglrun.lang.sampling import DEFAULTS
from tests.stand_in import StandIn

ASK = Request(prompt=Prompt().with_text("Hi"), sampling=DEFAULTS)


@pytest.fixture(autouse=True)
def fresh_config() -> Iterator[None]:
    """Leave the process's configuration as it was."""
    yield
    global_config.default_backend = global_config.offered_backend = None
    global_config.replaces_backends = False


@pytest.fixture
def known(stand_in: StandIn) -> StandIn:
    """A stand-in server whose model has a known chat template."""
    stand_in.model.model_path = "Qwen/Qwen2.5-7B-Instruct"
    return stand_in


def test_naming_a_backend_connects_to_nothing(known: StandIn) -> None:
    """The server is asked when it is first used, and once."""
    endpoint = RuntimeEndpoint(known.url, api_key="k")
    before = len(known.log)
    texts = [endpoint.generate(ASK).samples[0].text for _ in range(2)]

    assert before == 0
    assert texts == [" OUT", " OUT"]
    assert [entry.path for entry in known.log].count("/model_info") == 1
    assert known.log[-1].headers["authorization"] == "Bearer k"


def test_a_lazy_backend_is_a_backend(known: StandIn) -> None:
    """What the backend behind it is, it is too."""
    endpoint = RuntimeEndpoint(known.url)

    assert isinstance(endpoint, Backend)
    assert endpoint.kind == "sglang"
    assert endpoint.model == endpoint.get_model_name() == "stand-in"
    assert endpoint.chat_template.name == "qwen"
    assert endpoint.capabilities.regex
    assert endpoint.model_info["model_path"] == "stand-in"
    assert endpoint.endpoint is endpoint
    endpoint.shutdown()
    endpoint.close()


def test_a_template_that_a_script_sets_is_used(known: StandIn) -> None:
    """``backend.chat_template = ...`` and a template's name win over the model's."""
    assigned = RuntimeEndpoint(known.url)
    assigned.chat_template = get_chat_template("claude")
    named = RuntimeEndpoint(known.url, chat_template_name="chatml")

    assert assigned.chat_template.name == "claude"
    assert named.chat_template.name == "chatml"


def test_a_server_that_is_down_fails_at_its_first_use() -> None:
    """The address that nothing listens at is named."""
    endpoint = RuntimeEndpoint("http://127.0.0.1:1")

    with pytest.raises(BackendUnreachableError, match=r"http://127\.0\.0\.1:1"):
        endpoint.generate(ASK)


def test_tokens_are_counted_until_reset() -> None:
    """Scripts read what a backend has cost, and begin to count anew."""
    backend = LazyBackend("mock", MockBackend)
    backend.generate(ASK)
    backend.cache_prefix(ASK.prompt)
    counted = repr(backend.token_usage)
    backend.token_usage.reset()

    assert counted == "TokenUsage(prompt_tokens=2, completion_tokens=3)"
    assert repr(backend.token_usage) == (
        "TokenUsage(prompt_tokens=0, completion_tokens=0)"
    )


def test_a_lazy_backend_passes_on_what_is_known_of_a_prefix() -> None:
    """Whether nothing is generated after it reaches the backend that is made."""
    made = MockBackend()
    LazyBackend("mock", lambda: made).cache_prefix(ASK.prompt, only_scored=True)

    assert made.scored_prefixes == [ASK.prompt.text]


def test_closing_a_lazy_backend_closes_what_was_made() -> None:
    """A backend that was never used has nothing to close."""
    made: list[MockBackend] = []

    def make() -> MockBackend:
        made.append(MockBackend())
        return made[-1]

    unused, used = LazyBackend("mock", make), LazyBackend("mock", make)
    unused.close()
    used.opened()
    used.close()

    assert [backend.closed for backend in made] == [True]


def test_openai_is_asked_as_its_own_client_would(
    known: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Key and address come from the environment where the call gives none."""
    known.model.kind, known.model.model = "openai", "gpt-4"
    monkeypatch.setenv("OPENAI_BASE_URL", f"{known.url}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-env")
    prompt = Prompt().with_role_begin("user").with_text("Hi").with_role_end("user")
    asked = Request(prompt=prompt.with_role_begin("assistant"), sampling=DEFAULTS)
    plain = OpenAI("gpt-4").generate(asked)
    head = dict(known.log[-1].headers)
    OpenAI(
        "gpt-4",
        api_key="sk-own",
        organization="org",
        default_headers={"X-A": "b"},
        timeout=5,
        max_retries=3,
    ).generate(asked)

    assert plain.samples[0].text == " OUT"
    assert head["authorization"] == "Bearer sk-env"
    assert known.log[-1].headers["authorization"] == "Bearer sk-own"
    assert known.log[-1].headers["openai-organization"] == "org"
    assert known.log[-1].headers["x-a"] == "b"


def test_anthropic_is_asked_as_its_own_client_would(
    known: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Key and address come from the environment where the call gives none."""
    known.model.model = "claude"
    monkeypatch.setenv("ANTHROPIC_BASE_URL", known.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-env")
    prompt = Prompt().with_role_begin("user").with_text("Hi").with_role_end("user")
    asked = Request(prompt=prompt.with_role_begin("assistant"), sampling=DEFAULTS)
    completion = Anthropic("claude", max_retries=2).generate(asked)

    assert completion.samples[0].text == " OUT"
    assert known.log[-1].path == "/v1/messages"
    assert known.log[-1].headers["x-api-key"] == "sk-env"


def test_openai_without_a_key_is_refused_when_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Naming the model costs nothing; using it without a key says what is missing."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    backend = OpenAI("gpt-4", chat_template=get_chat_template("chatml"))

    assert backend.chat_template.name == "chatml"
    with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
        backend.generate(ASK)


def test_what_has_no_effect_is_said() -> None:
    """Arguments that cannot be honoured are named in a warning."""
    with pytest.warns(UserWarning, match="does not use http_client"):
        OpenAI("gpt-4", http_client=object())
    with pytest.warns(UserWarning, match="REQUESTS_CA_BUNDLE"):
        RuntimeEndpoint("http://127.0.0.1:1", verify="ca.pem")


@pytest.mark.parametrize(
    "given", [{"timeout": "long"}, {"default_headers": "X-A: b"}], ids=str
)
def test_arguments_of_the_wrong_kind_are_refused(given: dict[str, Any]) -> None:
    """What OpenAI's client would not take either is a configuration error."""
    with pytest.raises(ConfigError, match="takes"):
        OpenAI("gpt-4", **given)


@pytest.mark.parametrize("kind", [Crusoe, LiteLLM, VertexAI])
def test_a_backend_that_is_not_there_names_another(
    kind: type[Crusoe | LiteLLM | VertexAI],
) -> None:
    """The refusal comes with the first use, and says what to write instead."""
    backend = kind("m", api_key="k")

    with pytest.raises(
        UnsupportedFeatureError, match=rf"{kind.__name__}\('m'\).*OpenAI\('m', base_url"
    ):
        backend.generate(ASK)


def test_azure_is_refused_with_the_way_to_write_it() -> None:
    """The reference's Azure form names what to give instead."""
    with pytest.raises(UnsupportedFeatureError, match="base_url"):
        OpenAI("gpt-4", is_azure=True, api_key="k").generate(ASK)


def test_the_options_backend_takes_the_place_when_asked() -> None:
    """Every named backend becomes that of the options, which is said."""
    offered = MockBackend(capabilities=Capabilities(regex=False))
    global_config.offered_backend = offered
    global_config.replaces_backends = True
    with pytest.warns(UserWarning, match="is the backend of the options here"):
        backends = [RuntimeEndpoint("http://h"), OpenAI("m"), Anthropic("m")]

    assert [backend.kind for backend in backends] == ["mock"] * 3
    assert [backend.opened() for backend in backends] == [offered] * 3


def test_a_named_backend_stays_where_nobody_asks() -> None:
    """Options alone do not replace what the code names."""
    global_config.offered_backend = MockBackend()

    assert RuntimeEndpoint("http://h").kind == "sglang"


def test_module_calls_ask_the_default_backend() -> None:
    """Without a backend they answer nothing; with one they ask it."""
    nothing = (flush_cache(), get_server_info())
    set_default_backend(MockBackend(model="m"))

    assert nothing == (False, None)
    assert flush_cache() is True
    assert get_server_info() == {"model": "m"}
    assert flush_cache(MockBackend()) is True


def test_the_offered_backend_is_used_where_the_code_leaves_it_open() -> None:
    """The default backend is before the offered one; without both, it is said."""
    with pytest.raises(ProgramError, match="set_default_backend"):
        global_config.require_backend()
    offered = global_config.offered_backend = MockBackend()

    assert global_config.require_backend() is offered
    default = global_config.default_backend = MockBackend()
    assert global_config.require_backend() is default
