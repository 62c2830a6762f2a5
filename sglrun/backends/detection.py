"""The detection of a server: what answers at an address, and with which models."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from sglrun.backends.dialects import DIALECTS, OWNERS, PROBES, Dialect
from sglrun.backends.hosts import host_of
from sglrun.backends.http.client import HttpClient
from sglrun.backends.reply import an_optional_object, objects
from sglrun.errors import (
    BackendError,
    BackendTimeoutError,
    BackendUnavailableError,
    BackendUnreachableError,
    ConfigError,
)

_ASK_S = 15.0
_PROBE_S = 5.0
_SHOWN_MODELS = 20
# A key that is missing or wrong, and an address that has moved.
_TOLD_EVERYWHERE = frozenset({301, 302, 303, 307, 308, 401})
# As in https://NAME.openai.azure.com/openai/deployments/MODEL?api-version=...
_DEPLOYMENT = re.compile(r"/deployments/([^/?]+)")
_VERSIONED = re.compile(rf"/v\d|{_DEPLOYMENT.pattern}")
_ENDPOINT = re.compile(
    r"/(chat/completions|completions|messages|models|generate|docs|health)$"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """The models that a server lists, and where.

    Attributes:
        prefix: what stands between its address and ``/models``.
        names: the models that it lists.
        owners: who owns them, as it says.
        refusal: why it lists none, where it refused to.
    """

    prefix: str
    names: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()
    refusal: BackendError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server that speaks OpenAI's shape: what it lists, and how to ask it."""

    models: Models
    dialect: Dialect


def split_prefix(url: str) -> tuple[str, tuple[str, ...]]:
    """Return the server's own address, and the prefixes under which its API may be.

    What follows the prefix, as in an address copied whole, is left out; a query stays.
    """
    url, mark, query = url.partition("?")
    url = _ENDPOINT.sub("", url.rstrip("/")).rstrip("/")
    host = host_of(url)
    if url.endswith("/v1"):
        prefixes: tuple[str, ...] = ("/v1",)
        url = url.removesuffix("/v1")
    elif _VERSIONED.search(url):
        prefixes = ("",)
    elif host is not None and urlsplit(url).path == host.path:
        prefixes = (host.prefix,)
    else:
        prefixes = ("/v1", "")
    return f"{url}{mark}{query}", prefixes


def ask_kind(http: HttpClient) -> str:
    """Return the backend that the server at *http* is for; waits.

    Raises:
        BackendError: nothing answers, not in time, or the key is refused.
    """
    return "sglang" if sglang_info(http) else "openai"


def sglang_info(http: HttpClient) -> Mapping[str, object]:
    """Return what SGLang tells of its model; nothing where another server answers.

    Raises:
        BackendError: nothing answers, not in time, or the key is refused.
    """
    for path in ("/model_info", "/get_model_info"):
        try:
            info = an_optional_object(ask(http, path))
        except (BackendUnreachableError, BackendTimeoutError):
            raise
        except BackendError as exc:
            if exc.http_status in _TOLD_EVERYWHERE:
                raise
            continue
        if "model_path" in info:
            return info
    return {}


def detect(http: HttpClient, prefixes: Sequence[str]) -> Server:
    """Return what answers at the address of *http*; waits.

    Raises:
        BackendError: nothing answers, not in time, or the key is refused.
    """
    models = list_models(http, prefixes)
    name = _dialect_name(http, models.owners)
    return Server(models=models, dialect=DIALECTS[name])


def the_model(models: Models, asked: str | None, url: str) -> str:
    """Return the model that answers: the one that is asked for, or the only one.

    An address may name it too.

    Raises:
        ConfigError: none is asked for and the server has none, or several.
        BackendError: the server cannot list them now.
    """
    if asked:
        return asked
    if named := _DEPLOYMENT.search(url):
        return named[1]
    if len(models.names) == 1:
        return models.names[0]
    refusal = models.refusal
    if refusal is not None and refusal.retryable:
        raise refusal
    if not models.names:
        reason = f" ({refusal})" if refusal else ""
        raise ConfigError(f"{url} lists no models{reason}; name one with --model")
    names = ", ".join(models.names[:_SHOWN_MODELS])
    more = ", ..." if len(models.names) > _SHOWN_MODELS else ""
    raise ConfigError(f"{url} has several models; name one with --model: {names}{more}")


def list_models(http: HttpClient, prefixes: Sequence[str]) -> Models:
    """Return the models at the first of *prefixes* that lists any; waits.

    Raises:
        BackendError: nothing answers, not in time, or the key is refused.
    """
    refusal: BackendError | None = None
    for prefix in prefixes:
        try:
            return _listed(http, prefix)
        except (BackendUnreachableError, BackendTimeoutError):
            raise
        except BackendError as exc:
            # A key may be allowed to generate and not to list.
            if exc.http_status in _TOLD_EVERYWHERE:
                raise
            refusal = refusal or exc
    return Models(prefix=prefixes[0], refusal=refusal)


def _listed(http: HttpClient, prefix: str) -> Models:
    reply = ask(http, f"{prefix}/models")
    listed = objects(an_optional_object(reply).get("data", reply), "the list of models")
    return Models(
        prefix=prefix,
        names=tuple(str(model.get("id")) for model in listed),
        owners=tuple(str(model.get("owned_by")) for model in listed),
    )


def ask(http: HttpClient, path: str) -> object:
    """Return what a server that is not known yet answers at *path*; waits.

    Raises:
        BackendError: it gives no answer, or no JSON.
    """
    try:
        return http.get_json(path, timeout_s=_ASK_S)
    except BackendUnreachableError:
        raise
    except BackendUnavailableError as exc:
        # A server that waits for a TLS greeting hangs up on plain HTTP.
        if exc.http_status is None and http.base_url.startswith("http://"):
            exc.args = (f"{exc} (https:// in place of http://?)",)
        raise


def _dialect_name(http: HttpClient, owners: Sequence[str]) -> str:
    if (host := host_of(http.base_url)) is not None:
        return host.dialect
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
