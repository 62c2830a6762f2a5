"""The connection that a user's options describe: to which address, with which key."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager

from sglrun.backends.base import BackendOptions
from sglrun.backends.hosts import host_of
from sglrun.backends.http.client import HttpClient, Timeouts

_FIND_OUT_S = 30.0
_TOKEN = re.compile(r"\s*eyJ[\w-]+\.[\w-]+\.")


def connect(options: BackendOptions, address: str) -> HttpClient:
    """Return a client for *address*, as *options* have it; connects to nothing yet.

    Raises:
        ConfigError: the address, the key or a header cannot be sent, or the command
            that tells the key fails.
    """
    return HttpClient(
        address,
        api_key=options.api_key,
        key_header=_key_header(options, address),
        headers=options.headers,
        timeouts=Timeouts(total_s=options.timeout_s),
    )


def _key_header(options: BackendOptions, address: str) -> str:
    host = host_of(address)
    # What a sign-in gives, as at Azure, is a bearer token wherever keys go.
    if host is None or (options.api_key and _TOKEN.match(options.api_key.value)):
        return "Authorization"
    return host.key_header


@contextmanager
def connecting(options: BackendOptions, address: str) -> Iterator[HttpClient]:
    """Give a client as ``connect`` does; it is closed if its backend cannot be made."""
    http = connect(options, address)
    try:
        yield http
    except BaseException:
        http.close()
        raise


def asking(http: HttpClient, options: BackendOptions) -> HttpClient:
    """Return *http* for the questions before the first request.

    However many there are, they are over in the time that the user gives one request.
    """
    return http.until(time.monotonic() + min(options.timeout_s, _FIND_OUT_S))
