"""The backend for whatever answers at an address: the server is asked what it is."""

from dataclasses import replace

from sglrun.backends import create_backend
from sglrun.backends.base import Backend, BackendOptions
from sglrun.backends.connection import asking, connect
from sglrun.backends.detection import ask_kind, split_prefix
from sglrun.backends.hosts import backend_of_host
from sglrun.errors import ConfigError


def create(options: BackendOptions) -> Backend:
    """Return the backend that speaks what the server at ``options.url`` speaks best.

    An address that ends in ``/v1`` is taken at its word: OpenAI's shape, or that of
    Anthropic at its own host. Elsewhere SGLang's own way is used where it is there.

    Raises:
        ConfigError: no URL, or what the backend that is found says of the options.
        BackendError: nothing answers, or the key is refused.
    """
    if options.url is None:
        raise ConfigError("name the server with --url, as in http://127.0.0.1:30000")
    kind = backend_of_host(options.url)
    address, prefixes = split_prefix(options.url)
    if not kind and "" not in prefixes:
        kind = "openai"
    if not kind:
        http = connect(options, address)
        try:
            kind = ask_kind(asking(http, options))
        finally:
            http.close()
    url = address if kind == "sglang" else options.url
    return create_backend(kind, replace(options, url=url))
