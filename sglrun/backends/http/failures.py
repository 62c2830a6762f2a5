"""The error that a failure of the transport stands for: its class and its advice.

Rule: every exception of ``requests`` and ``urllib3`` is mapped here, once.
"""

import socket
import ssl
from collections.abc import Mapping
from typing import TypeVar

import requests
import urllib3

from sglrun.errors import (
    BackendTimeoutError,
    BackendUnavailableError,
    BackendUnreachableError,
    ConfigError,
    ResponseError,
    SglrunError,
)

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

# The nearest class in the exception's ancestry decides.
ERRORS: Mapping[type[Exception], type[SglrunError]] = {
    requests.ConnectionError: BackendUnavailableError,
    requests.exceptions.ProxyError: BackendUnreachableError,
    requests.exceptions.SSLError: BackendUnreachableError,
    requests.ConnectTimeout: BackendUnreachableError,
    requests.ReadTimeout: BackendTimeoutError,
    requests.Timeout: BackendTimeoutError,
    requests.exceptions.ChunkedEncodingError: BackendUnavailableError,
    requests.exceptions.RetryError: BackendUnavailableError,
    requests.exceptions.ContentDecodingError: ResponseError,
    requests.exceptions.InvalidJSONError: ResponseError,
    requests.exceptions.StreamConsumedError: ResponseError,
    requests.exceptions.UnrewindableBodyError: ResponseError,
    requests.TooManyRedirects: ResponseError,
    requests.HTTPError: ResponseError,
    requests.URLRequired: ConfigError,
    requests.exceptions.MissingSchema: ConfigError,
    requests.exceptions.InvalidSchema: ConfigError,
    requests.exceptions.InvalidURL: ConfigError,
    requests.exceptions.InvalidHeader: ConfigError,
    requests.RequestException: BackendUnavailableError,
    # What is read of a body comes straight from urllib3.
    urllib3.exceptions.TimeoutError: BackendTimeoutError,
    urllib3.exceptions.DecodeError: ResponseError,
    urllib3.exceptions.LocationValueError: ConfigError,
    urllib3.exceptions.HTTPError: BackendUnavailableError,
}

# Why nothing was reached, by the innermost cause: what to do, and whether the same call
# may succeed later.
_UNREACHABLE: Mapping[type[BaseException], tuple[str, bool]] = {
    ssl.SSLCertVerificationError: (
        "its certificate is not trusted (REQUESTS_CA_BUNDLE may name your authority)",
        False,
    ),
    ssl.SSLError: ("it does not speak TLS here (http:// in place of https://?)", False),
    socket.gaierror: ("no host has this name; check the URL", True),
    ConnectionRefusedError: (
        "nothing listens there; start the server or check the URL",
        True,
    ),
    BaseException: ("check the URL and the network", True),
}
# These tell more than the class that a library wraps them in.
_NEVER_CONNECTED = (ConnectionRefusedError, socket.gaierror, ssl.SSLError)


def error_of_failure(*, asked: str, address: str, exc: Exception) -> SglrunError:
    """Return the error that *exc* stands for.

    Args:
        asked: what was asked, as method and URL.
        address: the server, as it may be shown.
        exc: what a library raised.
    """
    root = _root(exc)
    cause = f"{root}" or type(root).__name__
    cls = _nearest(ERRORS, type(exc))
    if isinstance(root, TimeoutError) and "handshake" in cause:
        # A server that waits for plain HTTP says nothing to a TLS greeting.
        root = ssl.SSLError(cause)
    if isinstance(root, _NEVER_CONNECTED):
        cls = BackendUnreachableError
    if cls is BackendTimeoutError:
        return cls(
            f"{asked} was not answered in time ({cause}); raise --timeout if the "
            "server is slow"
        )
    if not issubclass(cls, BackendUnreachableError):
        return cls(f"{asked} failed: {cause}")
    advice, retryable = _nearest(_UNREACHABLE, type(root))
    if isinstance(exc, requests.exceptions.ProxyError):
        advice = "the proxy refuses; check HTTP_PROXY, HTTPS_PROXY and NO_PROXY"
    error = cls(f"{address} cannot be reached: {advice} ({cause})")
    error.retryable = retryable
    return error


def _nearest(table: Mapping[type[_Key], _Value], cls: type[_Key]) -> _Value:
    return next(table[base] for base in cls.__mro__ if base in table)


def _root(exc: BaseException) -> BaseException:
    """Return the innermost cause; the libraries wrap theirs in three ways."""
    inside = (getattr(exc, "reason", None), *exc.args, exc.__cause__)
    inner = next((one for one in inside if isinstance(one, BaseException)), None)
    return exc if inner is None else _root(inner)
