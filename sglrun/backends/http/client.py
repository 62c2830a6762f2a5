"""The door to the network: one attempt at one request, and what went wrong with it.

Rule: only this module and ``adapter`` import ``requests``. Nothing is tried again here.
"""

import copy
import json
import re
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import requests
import urllib3
from requests.utils import select_proxy

from sglrun.backends.base import Key
from sglrun.backends.http.adapter import OneAddressAdapter, prepared
from sglrun.backends.http.address import no_address, parse_address
from sglrun.backends.http.body import Body
from sglrun.backends.http.failures import error_of_failure
from sglrun.backends.http.quota import Quota
from sglrun.backends.http.sse import parse_events
from sglrun.backends.http.status import SHOWN_BYTES, error_of_answer, read_error
from sglrun.backends.secrets import Secrets, secret_texts, url_secrets
from sglrun.errors import (
    BackendError,
    BackendTimeoutError,
    BadRequestError,
    ConfigError,
    ResponseError,
)

_POOL_SIZE = 1024
_OK = 200
_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
_BEARER = "Authorization"
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")  # RFC 9110, 5.6.2


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
        secrets: what must not be written of all that goes with a request.
        quota: what its answers say is left.
    """

    def __init__(
        self,
        base_url: str,
        *,
        api_key: Key | None = None,
        key_header: str = _BEARER,
        headers: Mapping[str, str] | None = None,
        timeouts: Timeouts | None = None,
        size_limit: int = 256 * 1024 * 1024,
    ) -> None:
        """Connect to nothing yet.

        Args:
            base_url: ``http`` or ``https``; paths are appended to it, before its
                query if it has one.
            api_key: shown nowhere.
            key_header: what carries the key; in ``Authorization``, as a bearer token.
            headers: sent with every request.
            timeouts: how long an answer may take.
            size_limit: most bytes of an answer.

        Raises:
            ConfigError: the address, the key or a header cannot be sent.
        """
        address = parse_address(base_url)
        self.base_url = address.shown
        self.quota = Quota()
        self._timeouts = timeouts or Timeouts()
        self._size_limit = size_limit
        self._deadline = float("inf")
        given = dict(headers or {})
        key = "" if api_key is None else api_key.value.strip()
        self.secrets = Secrets(secret_texts(base_url, api_key=key, headers=given))
        if api_key is not None:
            given[key_header] = f"Bearer {key}" if key_header == _BEARER else key
        self._adapter = OneAddressAdapter(_POOL_SIZE)
        self._by_proxy = ""
        with self._translated("the address"), requests.Session() as session:
            # Proxies and authorities are read from the environment once, not with
            # every request.
            self._settings: Mapping[str, Any] = session.merge_environment_settings(
                url=address.url, proxies={}, stream=True, verify=None, cert=None
            )
            for proxy in self._settings["proxies"].values():
                self.secrets.add(url_secrets(proxy))
            session.trust_env = False
            try:
                head = session.prepare_request(_request(address.url, given))
            except requests.exceptions.InvalidURL as exc:  # its host is none
                raise no_address(address.shown) from exc
        self._url = f"{head.url}".rstrip("/")
        self._query = address.query
        self._headers = dict(head.headers)
        if through := select_proxy(address.url, self._settings["proxies"]):
            self._by_proxy = f" (through the proxy {through.rpartition('@')[2]})"

    def until(self, deadline: float) -> "HttpClient":
        """Return this client, every answer being due at *deadline* at the latest.

        Args:
            deadline: by the monotonic clock.
        """
        hurried = copy.copy(self)
        hurried._deadline = deadline  # noqa: SLF001 - its own kind
        return hurried

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

    def post(
        self, path: str, payload: object = None, *, timeout_s: float | None = None
    ) -> None:
        """Post *payload*, or nothing, whatever the answer says; waits.

        Raises:
            BackendError: there was no answer, or another status.
        """
        body = b"" if payload is None else _encoded(payload)
        with self._answered("POST", path, body, timeout_s) as (_, answer):
            answer.whole()

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
                raise self._no_answer(body.asked, begin, f"{kind} in place of a stream")
            # A server may begin a stream and let it wait for its turn.
            patient = replace(body, idle_s=self._timeouts.total_s)
            yield from parse_events(patient.chunks(), self.secrets.redacted)

    def close(self) -> None:
        """Close idle connections; safe to call twice."""
        self._adapter.close()

    def _json(
        self, method: str, path: str, payload: bytes, timeout_s: float | None
    ) -> object:
        with self._answered(method, path, payload, timeout_s) as (_, body):
            received = body.whole()
            try:
                return json.loads(received)
            except (ValueError, RecursionError) as exc:
                what = "no whole JSON" if received else "an empty body"
                raise self._no_answer(body.asked, received, what) from exc

    @contextmanager
    def _answered(
        self, method: str, path: str, payload: bytes, timeout_s: float | None
    ) -> Iterator[tuple[str, Body]]:
        asked = f"{method} {self.base_url}{path}{self._by_proxy}"
        total_s = self._left_s(asked, timeout_s)
        deadline = time.monotonic() + total_s
        with self._translated(asked):
            response = self._adapter.send(
                self._request(method, path, payload),
                # requests takes this too, and counts the time to connect in it.
                timeout=urllib3.Timeout(  # type: ignore[arg-type]
                    connect=min(self._timeouts.connect_s, total_s), total=total_s
                ),
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
                        # First of all: what is cut off later may cut a key in two.
                        body=self.secrets.redacted_bytes(body.whole()),
                    )
                self.quota.note(response.headers)
                yield response.headers.get("Content-Type", "nothing"), body
            finally:
                response.close()

    def _left_s(self, asked: str, timeout_s: float | None) -> float:
        given = self._timeouts.total_s
        given = given if timeout_s is None else min(given, timeout_s)
        left = min(given, self._deadline - time.monotonic())
        if left <= 0:
            raise BackendTimeoutError(
                f"{asked} was not asked: the time for the questions before is used up "
                "(raise --timeout if the server is slow)"
            )
        return left

    def _request(
        self, method: str, path: str, payload: bytes
    ) -> requests.PreparedRequest:
        url, headers = f"{self._url}{path}{self._query}", self._headers
        if method == "GET":
            return prepared(method, url, headers, None)
        sized = {**headers, "Content-Length": str(len(payload))}
        return prepared(method, url, sized, payload)

    @contextmanager
    def _translated(self, asked: str) -> Iterator[None]:
        try:
            yield
        except BackendError as exc:
            exc.args = (self.secrets.redacted(str(exc)),)
            raise
        except (requests.RequestException, urllib3.exceptions.HTTPError) as exc:
            address = f"{self.base_url}{self._by_proxy}"
            error = error_of_failure(asked=asked, address=address, exc=exc)
            error.args = (self.secrets.redacted(str(error)),)
            raise error from exc

    def _no_answer(self, asked: str, body: bytes, what: str) -> ResponseError:
        _, said = read_error(self.secrets.redacted_bytes(body))
        shown = f": {said[:SHOWN_BYTES]}" if said else ""
        return ResponseError(
            f"{asked} answered {_OK} with {what}{shown}; is this the address of a "
            "model's API (an OpenAI-shaped server is usually at .../v1)?",
            http_status=_OK,
        )


def _request(address: str, headers: Mapping[str, str]) -> requests.Request:
    for name, value in headers.items():
        if not _TOKEN.fullmatch(name):
            raise ConfigError(
                f"{name!r} is no name of a header: it takes letters and digits of "
                "ASCII and !#$%&'*+-.^_`|~, as in 'X-Team: blue'"
            )
        if not (value.isprintable() and value.isascii()):
            raise ConfigError(f"the header {name!r} holds what HTTP cannot send")
    common = {
        "Accept-Encoding": "identity",
        "Content-Type": "application/json",
        "User-Agent": "sglrun",
    }
    return requests.Request("GET", address, {**common, **headers})


def _encoded(payload: object) -> bytes:
    try:
        return _ENCODER.encode(payload).encode()
    except (TypeError, ValueError) as exc:
        raise BadRequestError(f"the request cannot be written as JSON: {exc}") from exc
