"""The stand-in server: a real HTTP server in the process, with a pretend model.

``with StandIn() as server`` listens on a free port of the loopback. Everything asked
is in ``server.log``; ``server.fail(...)`` scripts what goes wrong next.
"""

import json
import socket
import ssl
import struct
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from tests.stand_in_model import Json, PretendModel, RefusedError
from tests.stand_in_wire import Stream, respond

WAIT_S = 20.0
TLS_PEM = Path(__file__).with_name("stand_in_tls.pem")
_KEY_HEADERS = ("Authorization", "api-key")


@dataclass(frozen=True)
class Logged:
    """One request as it came: header names are in lower case."""

    method: str
    path: str
    payload: Json
    headers: Mapping[str, str]


class Handler(BaseHTTPRequestHandler):
    """One connection; faults write with its methods."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: "_Server"

    def do_GET(self) -> None:
        """Answer a GET."""
        self._respond()

    def do_POST(self) -> None:
        """Answer a POST."""
        self._respond()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
        """Say nothing."""

    def send(
        self,
        status: int,
        body: bytes,
        *,
        content_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
        length: int | None = None,
    ) -> None:
        """Write an answer; *length* may promise more than *body* has."""
        self.send_response(status)
        given = {name.lower() for name in headers or {}}
        self.send_header("Content-Type", content_type)
        if "content-length" not in given:
            self.send_header(
                "Content-Length", str(len(body) if length is None else length)
            )
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def send_json(self, status: int, body: object, **headers: str) -> None:
        """Write *body* as JSON."""
        self.send(status, json.dumps(body).encode(), headers=headers)

    def send_events(self, events: list[Json], *, end: bool = True) -> None:
        """Write server-sent events in chunks."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in [*map(json.dumps, events), *(["[DONE]"] if end else [])]:
            self.send_chunk(f"data: {event}\n\n".encode())
        if end:
            self.send_chunk(b"")

    def send_chunk(self, data: bytes) -> None:
        """Write one chunk of a body; an empty one ends it."""
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def _respond(self) -> None:
        owner = self.server.stand_in
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        payload = json.loads(body) if body else {}
        headers = {name.lower(): value for name, value in self.headers.items()}
        fault = owner.arrived(Logged(self.command, self.path, payload, headers))
        try:
            if fault is not None:
                fault(self)
            else:
                self._answer(owner, payload)
        except OSError:
            self.close_connection = True
        finally:
            owner.left()

    def _answer(self, owner: "StandIn", payload: Json) -> None:
        keys = (f"Bearer {owner.api_key}", owner.api_key)
        sent = zip(_KEY_HEADERS, keys, strict=True)
        if owner.api_key and not any(self.headers.get(n) == v for n, v in sent):
            self.send_json(401, {"error": "Unauthorized"})
            return
        try:
            body = respond(owner.model, self.command, self.path, payload)
        except RefusedError as exc:
            if isinstance(exc.body, str):
                self.send(exc.status, exc.body.encode(), content_type="text/plain")
            else:
                self.send_json(exc.status, exc.body)
            return
        if isinstance(body, Stream):
            self.send_events(body.events)
        elif isinstance(body, str):
            self.send(200, body.encode(), content_type="text/plain")
        else:
            self.send_json(200, body)


Fault = Callable[[Handler], None]
"""Writes a wrong answer in place of the right one."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 512

    def __init__(self, stand_in: "StandIn") -> None:
        super().__init__(("127.0.0.1", stand_in.port), Handler)
        self.stand_in = stand_in
        if stand_in.tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(TLS_PEM)
            self.socket = context.wrap_socket(
                self.socket, server_side=True, do_handshake_on_connect=False
            )
        self.open: set[Any] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        self.open.add(request)
        self.stand_in.connections += 1
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self.open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that left."""


@dataclass
class StandIn:
    """A server with port 0; a context manager that stops it at once.

    Attributes:
        model: what it answers; see ``PretendModel``.
        api_key: the key that it asks for, if any.
        tls: whether it speaks TLS, with the certificate in ``TLS_PEM``.
        port: where it listens; any that is free if 0.
        log: what was asked, in order of arrival.
        connections: how many connections were opened.
        most_in_flight: most requests that were answered at the same time.
        released: faults that wait, wait for this.
    """

    model: PretendModel = field(default_factory=PretendModel)
    api_key: str = ""
    tls: bool = False
    port: int = 0
    log: list[Logged] = field(default_factory=list)
    connections: int = 0
    most_in_flight: int = 0
    released: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        """Start with nothing in flight."""
        self._in_flight = 0
        self._changed = threading.Condition()
        self._faults: deque[tuple[str, Fault]] = deque()
        self._always: dict[str, Fault] = {}

    def __enter__(self) -> Self:
        """Listen."""
        self._server = _Server(self)
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            kwargs={"poll_interval": 0.01},
            name="stand-in",
            daemon=True,
        )
        self._thread.start()
        self.port = self._server.server_address[1]
        return self

    def __exit__(self, *exc: object) -> None:
        """Release what waits, and close every connection."""
        self.released.set()
        self._server.shutdown()
        self._server.server_close()
        for connection in tuple(self._server.open):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue
        self._thread.join(WAIT_S)

    @property
    def url(self) -> str:
        """The address, without a slash at its end."""
        scheme = "https" if self.tls else "http"
        return f"{scheme}://127.0.0.1:{self.port}"

    @property
    def generations(self) -> list[Json]:
        """The payloads of all generations, prefixes and choices."""
        paths = (
            "/generate",
            "/v1/chat/completions",
            "/v1/completions",
            "/v1/messages",
        )
        return [entry.payload for entry in self.log if entry.path in paths]

    def fail(self, *faults: Fault, path: str = "") -> None:
        """Let the next requests (to *path*, if given) get *faults*, one each."""
        self._faults.extend((path, fault) for fault in faults)

    def fail_always(self, fault: Fault, path: str = "") -> None:
        """Let every request (to *path*, if given) get *fault*."""
        self._always[path] = fault

    def forgive(self) -> None:
        """Let nothing go wrong any more."""
        with self._changed:
            self._faults.clear()
            self._always.clear()

    def recover(self) -> None:
        """End what ``fail_always`` began."""
        self._always.clear()

    def wait_for(self, count: int) -> None:
        """Wait until *count* requests have arrived in all.

        Raises:
            TimeoutError: they did not.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.log) >= count, WAIT_S):
                raise TimeoutError(f"{len(self.log)} of {count} requests came")

    def arrived(self, entry: Logged) -> Fault | None:
        """Note a request; return what is to go wrong with it."""
        with self._changed:
            self.log.append(entry)
            self._in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self._in_flight)
            self._changed.notify_all()
            if self._faults and self._faults[0][0] in ("", entry.path):
                return self._faults.popleft()[1]
            return self._always.get(entry.path) or self._always.get("")

    def left(self) -> None:
        """Note that a request was answered."""
        with self._changed:
            self._in_flight -= 1


def status(code: int, body: object = None, **headers: str) -> Fault:
    """Answer *code* with JSON; ``_`` in header names stands for ``-``."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    given = {"error": {"message": f"status {code}"}} if body is None else body
    return lambda handler: handler.send(code, json.dumps(given).encode(), headers=named)


def raw(
    code: int, body: bytes, content_type: str = "application/json", **headers: str
) -> Fault:
    """Answer *code* with these bytes."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda handler: handler.send(
        code, body, content_type=content_type, headers=named
    )


html_502 = raw(502, b"<html><title>502 Bad Gateway</title></html>", "text/html")
html_200 = raw(200, b"<!doctype html><p>Welcome</p>", "text/html")
empty_body = raw(200, b"")
truncated_json = raw(200, b'{"text": " OU')
bad_utf8 = raw(200, b'{"text": "\xff\xfe"}')


def cut_body(handler: Handler) -> None:
    """Promise more than is sent, and hang up."""
    handler.send(200, b'{"text": " O', length=500)
    handler.close_connection = True


def reset(handler: Handler) -> None:
    """Break the connection before a byte is sent."""
    handler.connection.setsockopt(
        socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
    )
    handler.connection.close()
    handler.close_connection = True


def hang(handler: Handler) -> None:
    """Send nothing until released, then hang up."""
    handler.server.stand_in.released.wait(WAIT_S)
    handler.close_connection = True


def drip(handler: Handler) -> None:
    """Send a byte at a time, without end until released."""
    handler.send(200, b'{"text": "', length=1_000_000)
    while not handler.server.stand_in.released.wait(0.02):
        handler.wfile.write(b"x")
    handler.close_connection = True


def events(*given: Json, end: bool = False) -> Fault:
    """Answer with these events and then, unless *end*, cut the stream."""

    def send(handler: Handler) -> None:
        handler.send_events(list(given), end=end)
        handler.close_connection = not end

    return send
