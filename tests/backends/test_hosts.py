"""The hosts that are known, asked as they want to be asked."""

import pytest

from sglrun.backends import create_backend
from sglrun.backends.base import Backend, BackendOptions, Request, Secret
from sglrun.backends.detection import split_prefix
from sglrun.backends.hosts import HOSTS, host_of, key_variable
from sglrun.lang.prompt import Prompt
from sglrun.lang.sampling import DEFAULTS
from tests.stand_in import StandIn

KEY = "azure-key-0123"


@pytest.mark.parametrize("end", HOSTS)
def test_a_known_host_has_its_own_key(end: str) -> None:
    """A key is never sent to another's host by default."""
    host = f"x{end}" if end.startswith(".") else end
    evil = f"{host.removesuffix(HOSTS[end].path)}.evil.example{HOSTS[end].path}"

    assert key_variable(f"https://{host}/v1") == HOSTS[end].key_variable
    assert key_variable(f"https://{evil}/v1") == ""


@pytest.mark.parametrize(
    ("end", "dialect", "prefix"),
    [
        ("", "deepseek", "/v1"),
        ("/", "deepseek", "/v1"),
        ("/v1", "deepseek", "/v1"),
        ("/beta", "deepseek-beta", ""),
        ("/beta/chat/completions", "deepseek-beta", ""),
        ("/betas", "deepseek", "/v1"),
    ],
)
def test_a_host_may_have_an_api_below_each_path(
    end: str, dialect: str, prefix: str
) -> None:
    """DeepSeek continues a begun answer only below its ``/beta``."""
    url = f"https://api.deepseek.com{end}"
    host = host_of(url)

    assert host is not None
    assert host.dialect == dialect
    assert split_prefix(url)[1][0] == prefix


def test_a_name_is_no_host_that_only_ends_like_one() -> None:
    """The dot before a known name counts."""
    assert host_of("https://notopenrouter.ai") is None
    assert host_of("https://eu.openrouter.ai") is not None


@pytest.fixture
def azure(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """A server that answers for Azure's hosts, as a proxy would."""
    monkeypatch.setenv("http_proxy", stand_in.url)
    monkeypatch.setenv("no_proxy", "")
    stand_in.model.kind = "openai"
    stand_in.api_key = KEY
    return stand_in


def opened(url: str, model: str | None = None) -> Backend:
    options = BackendOptions(url=url, model=model, api_key=Secret(value=KEY))
    return create_backend("openai", options)


def answer(backend: Backend) -> str:
    prompt = Prompt().with_role_begin("user").with_text("hi").with_role_end("user")
    asked = Request(prompt=prompt.with_role_begin("assistant"), sampling=DEFAULTS)
    return backend.generate(asked).samples[0].text


@pytest.mark.parametrize("end", ["", "?api-version=2024-10-21"])
@pytest.mark.parametrize("copied", ["", "/", "/chat/completions"])
def test_a_deployment_of_azure_is_its_model(
    azure: StandIn, copied: str, end: str
) -> None:
    """The address names the model; its version goes with every request."""
    base = "http://me.openai.azure.com/openai/deployments/stand-in"
    backend = opened(f"{base}{copied}{end}")

    assert answer(backend) == " OUT"
    assert backend.model == "stand-in"
    assert azure.log[-1].path == f"{base}/chat/completions{end}"
    assert azure.log[-1].headers["api-key"] == KEY
    assert "authorization" not in azure.log[-1].headers


def test_a_token_of_a_sign_in_is_a_bearers(azure: StandIn) -> None:
    """What signing in at Azure gives is no key, and is sent as what it is."""
    azure.api_key = token = "eyJ0eXAi.eyJhdWQi.c2lnbmVk"  # noqa: S105 - made up
    url = "http://me.openai.azure.com/openai/v1"
    options = BackendOptions(url=url, model="stand-in", api_key=Secret(value=token))

    assert answer(create_backend("openai", options)) == " OUT"
    assert azure.log[-1].headers["authorization"] == f"Bearer {token}"
    assert "api-key" not in azure.log[-1].headers


@pytest.mark.parametrize("end", ["", "/", "/openai/v1", "/openai/v1/chat/completions"])
def test_azure_without_versions(azure: StandIn, end: str) -> None:
    """Its newer API needs no version, and is found below the bare host too."""
    backend = opened(f"http://me.openai.azure.com{end}", model="stand-in")

    assert answer(backend) == " OUT"
    assert azure.log[-1].path.endswith(".com/openai/v1/chat/completions")
    assert backend.get_server_info()["kind"] == "openai"
