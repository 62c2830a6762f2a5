"""The detection of a server: what answers at an address, and with which models."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from sglrun.backends.dialects import DIALECTS, HOSTS, OWNERS, PROBES, Dialect
from sglrun.backends.http import HttpClient
from sglrun.backends.reply import an_optional_object, objects
from sglrun.errors import (
    AuthenticationError,
    BackendError,
    BackendTimeoutError,
    BackendUnreachableError,
    ConfigError,
)

_ASK_S = 15.0
_PROBE_S = 5.0
_SHOWN_MODELS = 20
_UNAUTHORIZED = 401


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server that speaks OpenAI's shape.

    Attributes:
        prefix: what stands between its address and ``/chat/completions``.
        dialect: how it wants to be asked.
        models: the models that it lists.
        refusal: why it lists none, where it refused to.
    """

    prefix: str
    dialect: Dialect
    models: tuple[str, ...]
    refusal: BackendError | None = None


def split_prefix(url: str) -> tuple[str, tuple[str, ...]]:
    """Return the server's own address, and the prefixes under which its API may be."""
    url = url.rstrip("/")
    if url.endswith("/v1"):
        return url.removesuffix("/v1"), ("/v1",)
    versioned = re.search(r"/v\d", url)
    return url, ("",) if versioned else ("/v1", "")


def detect(http: HttpClient, prefixes: Sequence[str]) -> Server:
    """Return what answers at the address of *http*; waits.

    Raises:
        BackendError: nothing answers, not in time, or the key is refused.
    """
    prefix, listed, refusal = _listed(http, prefixes)
    owners = [str(model.get("owned_by")) for model in listed]
    return Server(
        prefix=prefix,
        dialect=DIALECTS[_dialect_name(http, owners)],
        models=tuple(str(model.get("id")) for model in listed),
        refusal=refusal,
    )


def the_model(server: Server, asked: str | None, url: str) -> str:
    """Return the model that answers: the one that is asked for, or the only one.

    Raises:
        ConfigError: none is asked for and the server has none, or several.
        BackendError: the server cannot list them now.
    """
    if asked:
        return asked
    if len(server.models) == 1:
        return server.models[0]
    if server.refusal is not None and server.refusal.retryable:
        raise server.refusal
    if not server.models:
        reason = f" ({server.refusal})" if server.refusal else ""
        raise ConfigError(f"{url} lists no models{reason}; name one with --model")
    names = ", ".join(server.models[:_SHOWN_MODELS])
    more = ", ..." if len(server.models) > _SHOWN_MODELS else ""
    raise ConfigError(f"{url} has several models; name one with --model: {names}{more}")


def _listed(
    http: HttpClient, prefixes: Sequence[str]
) -> tuple[str, Sequence[Mapping[str, object]], BackendError | None]:
    refusal: BackendError | None = None
    for prefix in prefixes:
        try:
            reply = http.get_json(f"{prefix}/models", timeout_s=_ASK_S)
            data = an_optional_object(reply).get("data", reply)
            return prefix, objects(data, "the list of models"), None
        except (BackendUnreachableError, BackendTimeoutError):
            raise
        except AuthenticationError as exc:
            # A key may be allowed to generate and not to list.
            if exc.http_status == _UNAUTHORIZED:
                raise
            refusal = exc
        except BackendError as exc:
            refusal = refusal or exc
    return prefixes[0], (), refusal


def _dialect_name(http: HttpClient, owners: Sequence[str]) -> str:
    host = urlsplit(http.base_url).hostname or ""
    for end, name in HOSTS.items():
        if host == end.lstrip(".") or host.endswith("." + end.lstrip(".")):
            return name
    for owner in owners:
        if owner in OWNERS:
            return OWNERS[owner]
    for path, key, name in PROBES:
        try:
            reply = http.get_json(path, timeout_s=_PROBE_S)
        except BackendError:
            continue
        if key in an_optional_object(reply):
            return name
    return "generic"
