"""The door to the network: one attempt at one request, and what went wrong with it.

Rule: only this module and ``adapter`` import ``requests``. Nothing is tried again here.
"""

import json
import re
import socket
import ssl
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from urllib.parse import urlsplit, urlunsplit

import requests
import urllib3

from sglrun.backends.base import Secret
from sglrun.backends.http.adapter import OneAddressAdapter, prepared
from sglrun.backends.http.body import Body
from sglrun.backends.http.sse import parse_events
from sglrun.backends.http.status import SHOWN_BYTES, error_of_answer, read_error
from sglrun.errors import (
    BackendError,
    BackendTimeoutError,
    BackendUnavailableError,
    BackendUnreachableError,
    BadRequestError,
    ConfigError,
    ResponseError,
    SglrunError,
)

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

_POOL_SIZE = 1024
_OK = 200
_SHORTEST_SECRET = 4
_SECRET_HEADER = re.compile(r"auth|key|token|secret|cookie", re.IGNORECASE)
_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """How long an answer may take, in seconds.

    Attributes:
        total_s: until it is complete.
        connect_s: until the server accepts the connection.
        idle_s: between two pieces of a body that has begun, streams apart.
    """

    total_s: float = 600.0
    connect_s: float = 10.0
    idle_s: float = 120.0


class HttpClient:
    """A server's address with all that goes with each request; for many threads.

    Attributes:
        base_url: the address without a slash at its end and without a password.
    """

    def __init__(
        self,
        base_url: str,
        *,
        api_key: Secret | None = None,
        headers: Mapping[str, str] | None = None,
        timeouts: Timeouts | None = None,
        size_limit: int = 256 * 1024 * 1024,
    ) -> None:
        """Connect to nothing yet.

        Args:
            base_url: ``http`` or ``https``; paths are appended to it.
            api_key: sent as a bearer token, and shown nowhere.
            headers: sent with every request.
            timeouts: how long an answer may take.
            size_limit: most bytes of an answer.

        Raises:
            ConfigError: the address, the key or a header cannot be sent.
        """
        self._address = base_url.rstrip("/")
        self.base_url = _without_password(self._address)
        self._timeouts = timeouts or Timeouts()
        self._size_limit = size_limit
        given = dict(headers or {})
        self._secrets = tuple(
            value for name, value in given.items() if _SECRET_HEADER.search(name)
        )
        if api_key is not None:
            key = api_key.value.strip()
            self._secrets += (key,)
            given["Authorization"] = f"Bearer {key}"
        self._adapter = OneAddressAdapter(_POOL_SIZE)
        with self._translated("the address"), requests.Session() as session:
            # Proxies and authorities are read from the environment once, not with
            # every request.
            self._settings: Mapping[str, Any] = session.merge_environment_settings(
                url=self._address, proxies={}, stream=True, verify=None, cert=None
            )
            session.trust_env = False
            head = session.prepare_request(_request(self._address, given))
        self._url = f"{head.url}".rstrip("/")
        self._headers = dict(head.headers)

    def get_json(self, path: str, *, timeout_s: float | None = None) -> object:
        """Return the JSON at *path*; waits.

        Raises:
            BackendError: there was no answer, another status, or no JSON.
        """
        return self._json("GET", path, b"", timeout_s)

    def post_json(
        self, path: str, payload: object, *, timeout_s: float | None = None
    ) -> object:
        """Return the JSON that answers *payload*; waits.

        Raises:
            BackendError: there was no answer, another status, or no JSON.
        """
        return self._json("POST", path, _encoded(payload), timeout_s)

    def post(self, path: str, *, timeout_s: float | None = None) -> None:
        """Post nothing to *path*, whatever the answer says; waits.

        Raises:
            BackendError: there was no answer, or another status.
        """
        with self._answered("POST", path, b"", timeout_s) as (_, body):
            body.whole()

    def stream_sse(
        self, path: str, payload: object
    ) -> Generator[Mapping[str, object], None, None]:
        """Yield the events that answer *payload*; closing the iterator hangs up.

        Raises:
            BackendError: there was no answer, another status, or no events.
        """
        with self._answered("POST", path, _encoded(payload), None) as (kind, body):
            if not kind.startswith("text/event-stream"):
                begin = next(body.chunks(), b"")
                raise _no_answer(body.asked, begin, f"{kind} in place of a stream")
            # A server may begin a stream and let it wait for its turn.
            patient = replace(body, idle_s=self._timeouts.total_s)
            yield from parse_events(patient.chunks())

    def close(self) -> None:
        """Close idle connections; safe to call twice."""
        self._adapter.close()

    def redacted(self, text: str) -> str:
        """Return *text* without the key and other secrets of this client."""
        for secret in self._secrets:
            if len(secret) >= _SHORTEST_SECRET:
                text = text.replace(secret, "***")
        return text

    def _json(
        self, method: str, path: str, payload: bytes, timeout_s: float | None
    ) -> object:
        with self._answered(method, path, payload, timeout_s) as (_, body):
            received = body.whole()
            try:
                return json.loads(received)
            except (ValueError, RecursionError) as exc:
                what = "no whole JSON" if received else "an empty body"
                raise _no_answer(body.asked, received, what) from exc

    @contextmanager
    def _answered(
        self, method: str, path: str, payload: bytes, timeout_s: float | None
    ) -> Iterator[tuple[str, Body]]:
        total_s = self._timeouts.total_s if timeout_s is None else timeout_s
        deadline = time.monotonic() + total_s
        asked = f"{method} {self.base_url}{path}"
        with self._translated(asked):
            response = self._adapter.send(
                self._request(method, path, payload),
                timeout=(min(self._timeouts.connect_s, total_s), total_s),
                **self._settings,
            )
            body = Body(
                raw=response.raw,
                asked=asked,
                deadline=deadline,
                idle_s=self._timeouts.idle_s,
                size_limit=self._size_limit,
            )
            try:
                if response.status_code != _OK:
                    raise error_of_answer(
                        asked=asked,
                        status=response.status_code,
                        headers=response.headers,
                        body=body.whole(),
                    )
                yield response.headers.get("Content-Type", "nothing"), body
            finally:
                response.close()

    def _request(
        self, method: str, path: str, payload: bytes
    ) -> requests.PreparedRequest:
        url, headers = self._url + path, self._headers
        if method == "GET":
            return prepared(method, url, headers, None)
        sized = {**headers, "Content-Length": str(len(payload))}
        return prepared(method, url, sized, payload)

    @contextmanager
    def _translated(self, asked: str) -> Iterator[None]:
        try:
            yield
        except BackendError as exc:
            exc.args = (self.redacted(str(exc)),)
            raise
        except (requests.RequestException, urllib3.exceptions.HTTPError) as exc:
            raise self._error(asked, exc) from exc

    def _error(self, asked: str, exc: Exception) -> SglrunError:
        root = _root(exc)
        cause = self.redacted(f"{root}" or type(root).__name__)
        cls = _nearest(ERRORS, type(exc))
        if isinstance(root, TimeoutError) and "handshake" in cause:
            # A server that waits for plain HTTP says nothing to a TLS greeting.
            root = ssl.SSLError(cause)
        if isinstance(root, _NEVER_CONNECTED):
            cls = BackendUnreachableError
        if not issubclass(cls, BackendUnreachableError):
            return cls(f"{asked} failed: {cause}")
        advice, retryable = _nearest(_UNREACHABLE, type(root))
        error = cls(f"{self.base_url} cannot be reached: {advice} ({cause})")
        error.retryable = retryable
        return error


def _request(address: str, headers: Mapping[str, str]) -> requests.Request:
    for name, value in headers.items():
        if not (name + value).isprintable() or not value.isascii():
            raise ConfigError(f"the header {name!r} holds what HTTP cannot send")
    common = {
        "Accept-Encoding": "identity",
        "Content-Type": "application/json",
        "User-Agent": "sglrun",
    }
    return requests.Request("GET", address, {**common, **headers})


def _no_answer(asked: str, body: bytes, what: str) -> ResponseError:
    _, said = read_error(body)
    shown = f": {said[:SHOWN_BYTES]}" if said else ""
    return ResponseError(
        f"{asked} answered {_OK} with {what}{shown}; is this the address of a model's "
        "API (an OpenAI-shaped server is usually at .../v1)?",
        http_status=_OK,
    )


_NEVER_CONNECTED = (ConnectionRefusedError, socket.gaierror, ssl.SSLError)


def _nearest(table: Mapping[type[_Key], _Value], cls: type[_Key]) -> _Value:
    return next(table[base] for base in cls.__mro__ if base in table)


def _root(exc: BaseException) -> BaseException:
    """Return the innermost cause; the libraries wrap theirs in three ways."""
    inside = (getattr(exc, "reason", None), *exc.args, exc.__cause__)
    inner = next((one for one in inside if isinstance(one, BaseException)), None)
    return exc if inner is None else _root(inner)


def _encoded(payload: object) -> bytes:
    try:
        return _ENCODER.encode(payload).encode()
    except (TypeError, ValueError) as exc:
        raise BadRequestError(f"the request cannot be written as JSON: {exc}") from exc


def _without_password(url: str) -> str:
    shown = re.sub(r"//[^/]*@", "//", url)
    try:
        parts = urlsplit(shown)
        port = parts.port
    except ValueError as exc:
        raise ConfigError(f"{shown!r} is no address: {exc}") from exc
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise ConfigError(f"{shown!r} is no address; write it as http://host:port")
    bare = urlunsplit(parts._replace(query="", fragment=""))
    if parts.query:
        raise ConfigError(f"{bare!r} has a query after it; an address has none")
    return bare
