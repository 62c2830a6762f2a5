"""The hosts that are known: which API they speak, and which variable holds the key."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A public host.

    Attributes:
        dialect: how it wants to be asked, if it speaks OpenAI's shape.
        key_variable: the variable that its users keep their key in.
        backend: the backend that is for it.
        key_header: the header that carries the key.
        path: the path of the address, where a host has another API below each.
        prefix: where its API is, if the address names nothing more.
    """

    dialect: str = "generic"
    key_variable: str = ""
    backend: str = "openai"
    key_header: str = "Authorization"
    path: str = ""
    prefix: str = "/v1"


_AZURE = Host(
    dialect="openai",
    key_variable="AZURE_OPENAI_API_KEY",
    key_header="api-key",
    prefix="/openai/v1",
)


HOSTS: Mapping[str, Host] = {
    "api.openai.com": Host(dialect="openai", key_variable="OPENAI_API_KEY"),
    ".openai.azure.com": _AZURE,
    ".cognitiveservices.azure.com": _AZURE,
    ".services.ai.azure.com": _AZURE,
    "api.anthropic.com": Host(
        backend="anthropic",
        key_variable="ANTHROPIC_API_KEY",
        key_header="x-api-key",
    ),
    "api.groq.com": Host(
        dialect="groq", key_variable="GROQ_API_KEY", prefix="/openai/v1"
    ),
    "api.mistral.ai": Host(dialect="mistral", key_variable="MISTRAL_API_KEY"),
    "api.deepseek.com/beta": Host(
        dialect="deepseek-beta",
        key_variable="DEEPSEEK_API_KEY",
        path="/beta",
        prefix="",
    ),
    "api.deepseek.com": Host(dialect="deepseek", key_variable="DEEPSEEK_API_KEY"),
    "openrouter.ai": Host(
        dialect="openrouter", key_variable="OPENROUTER_API_KEY", prefix="/api/v1"
    ),
    "api.together.xyz": Host(dialect="together", key_variable="TOGETHER_API_KEY"),
    "api.together.ai": Host(dialect="together", key_variable="TOGETHER_API_KEY"),
}
"""A name, or with a dot before it the end of one, to what is there.

A name may have a path after it, and then stands before the name alone.
"""


def host_of(url: str) -> Host | None:
    """Return what is known of the host of *url*; nothing of most."""
    try:
        parts = urlsplit(url)
        name = (parts.hostname or "").lower()
    except ValueError:
        return None
    for key, host in HOSTS.items():
        end = key.removesuffix(host.path).lstrip(".")
        is_it = name == end or name.endswith("." + end)
        if is_it and f"{parts.path}/".startswith(f"{host.path}/"):
            return host
    return None


def backend_of_host(url: str) -> str:
    """Return the backend that the host of *url* is known for, or nothing."""
    host = host_of(url)
    return "" if host is None else host.backend


def key_variable(url: str) -> str:
    """Return the variable that holds the key for the host of *url*, or nothing."""
    host = host_of(url)
    return "" if host is None else host.key_variable
