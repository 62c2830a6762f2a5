"""The door to the network."""

import socket
import ssl
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import requests
import urllib3

from sglrun.backends.base import Secret
from sglrun.backends.http.client import HttpClient, Timeouts
from sglrun.backends.http.failures import ERRORS, error_of_failure
from sglrun.errors import (
    AuthenticationError,
    BackendError,
    BackendTimeoutError,
    BackendUnavailableError,
    BackendUnreachableError,
    BadRequestError,
    ConfigError,
    ResponseError,
    SglrunError,
)
from tests import stand_in as faults
from tests.stand_in import Fault, StandIn

KEY = "sk-very-secret-0123"


def client(server: StandIn, **options: Any) -> HttpClient:
    return HttpClient(server.url, **options)


def subclasses(cls: type[Exception]) -> set[type[Exception]]:
    return {cls}.union(*(subclasses(sub) for sub in cls.__subclasses__()))


@pytest.mark.parametrize(
    "cls",
    sorted(
        {
            *(c for c in subclasses(requests.RequestException) if "requests" in str(c)),
            *(
                c
                for c in subclasses(urllib3.exceptions.HTTPError)
                if c.__module__ == "urllib3.exceptions"
            ),
        },
        key=str,
    ),
    ids=lambda cls: f"{cls.__module__}.{cls.__name__}",
)
def test_every_exception_of_the_transport_has_its_error(cls: type[Exception]) -> None:
    """No exception of the library passes the door untranslated."""
    nearest = next(base for base in cls.__mro__ if base in ERRORS)

    assert nearest is not Exception
    assert issubclass(ERRORS[nearest], SglrunError)


def test_a_payload_goes_and_an_answer_comes(stand_in: StandIn) -> None:
    """JSON is posted and read, whatever its characters."""
    text = "\u2603 \ud800"
    with_headers = client(
        stand_in, headers={"X-Team": "blue"}, api_key=Secret(value=KEY)
    )
    answer = with_headers.post_json("/generate", {"text": text})

    assert isinstance(answer, dict)
    assert answer["text"] == " OUT"
    assert stand_in.log[0].payload == {"text": text}
    assert stand_in.log[0].headers["x-team"] == "blue"
    assert stand_in.log[0].headers["authorization"] == f"Bearer {KEY}"


def test_connections_are_kept(stand_in: StandIn) -> None:
    """Requests one after another share a connection; parallel ones have their own."""
    http = client(stand_in)
    for _ in range(5):
        http.get_json("/health")

    assert stand_in.connections == 1
    stand_in.fail_always(faults.hang)
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(http.get_json, "/health") for _ in range(8)]
        stand_in.wait_for(5 + 8)
        stand_in.released.set()

    assert all(isinstance(one.exception(), BackendUnavailableError) for one in asked)
    assert stand_in.most_in_flight == 8


@pytest.mark.parametrize(
    ("fault", "cls", "message"),
    [
        (faults.html_502, BackendUnavailableError, r"502: an HTML page \(502 Bad"),
        (faults.html_200, ResponseError, r"no whole JSON: an HTML page.*/v1"),
        (faults.empty_body, ResponseError, "an empty body"),
        (faults.truncated_json, ResponseError, r'no whole JSON: {"text": " OU'),
        (faults.bad_utf8, ResponseError, "no whole JSON"),
        (faults.raw(200, b"OK", "text/plain"), ResponseError, "no whole JSON: OK"),
        (faults.cut_body, BackendUnavailableError, "failed: .*IncompleteRead|500"),
        (faults.reset, BackendUnavailableError, "failed: .*reset"),
        (faults.status(401), AuthenticationError, "status 401"),
        (faults.raw(200, b"[" * 100_000), ResponseError, "no whole JSON"),
    ],
)
def test_a_bad_answer_is_a_named_error(
    stand_in: StandIn, fault: Fault, cls: type[BackendError], message: str
) -> None:
    """Whatever a server or a proxy sends, the error says what came and from where."""
    stand_in.fail(fault)
    http = client(stand_in)

    with pytest.raises(cls, match=message) as caught:
        http.post_json("/generate", {"text": "a"})

    assert type(caught.value) is cls
    assert stand_in.url in str(caught.value)
    assert len(stand_in.log) == 1
    assert http.post_json("/generate", {"text": "a"})


@pytest.mark.parametrize("fault", [faults.hang, faults.drip])
def test_an_answer_has_a_deadline(stand_in: StandIn, fault: Fault) -> None:
    """Neither silence nor a body that drips lasts longer than the timeout."""
    stand_in.fail(fault)
    begin = time.monotonic()

    with pytest.raises(BackendTimeoutError):
        client(stand_in, timeouts=Timeouts(total_s=0.3)).post_json("/generate", {})

    assert time.monotonic() - begin < 5


def test_a_body_that_stops_is_given_up(stand_in: StandIn) -> None:
    """A body that has begun may pause no longer than allowed."""

    def begin_and_stop(handler: faults.Handler) -> None:
        handler.send(200, b"{", length=9)
        faults.hang(handler)

    stand_in.fail(begin_and_stop)

    with pytest.raises(BackendTimeoutError):
        client(stand_in, timeouts=Timeouts(total_s=60, idle_s=0.2)).get_json("/health")


def test_a_body_has_a_limit(stand_in: StandIn) -> None:
    """An answer without end is not read into memory."""
    stand_in.fail(faults.drip)

    with pytest.raises(ResponseError, match="more than 20 bytes"):
        client(stand_in, size_limit=20).get_json("/health")


@pytest.mark.parametrize(
    ("url", "message", "retryable"),
    [
        ("http://127.0.0.1:1", "nothing listens there", True),
        ("http://no-such-host.invalid", "no host has this name", True),
        ("https://{stand_in}", "does not speak TLS", False),
    ],
)
def test_a_server_that_is_not_there_comes_with_advice(
    stand_in: StandIn, url: str, message: str, *, retryable: bool
) -> None:
    """Refused, unknown and not TLS are told apart, and whether to try again."""
    url = url.replace("{stand_in}", stand_in.url.removeprefix("http://"))

    with pytest.raises(BackendUnreachableError, match=message) as caught:
        HttpClient(url, timeouts=Timeouts(total_s=5)).get_json("/health")

    assert caught.value.retryable is retryable
    assert caught.value.fatal


def test_an_untrusted_certificate_is_named() -> None:
    """The innermost cause decides, however it is wrapped."""
    inner = ssl.SSLCertVerificationError("CERTIFICATE_VERIFY_FAILED")
    exc = requests.exceptions.SSLError(urllib3.exceptions.SSLError(inner))
    error = error_of_failure(asked="GET https://h/", address="https://h", exc=exc)

    assert isinstance(error, BackendUnreachableError)
    assert "REQUESTS_CA_BUNDLE" in str(error)
    assert not error.retryable


@pytest.mark.parametrize(
    "url", ["", "localhost:8000", "ftp://h", "http://", "http://h:port", "http://[::1"]
)
def test_an_address_that_is_none_is_refused_at_once(url: str) -> None:
    """A wrong URL is a matter of configuration."""
    with pytest.raises(ConfigError):
        HttpClient(url)


@pytest.mark.parametrize("host", ["a b", "*", ".", "*.a", "%zz", "h\x00", "é" * 70])
def test_a_host_that_is_none_is_refused_at_once(host: str) -> None:
    """What no name of a host may hold is told as the wrong address that it is."""
    with pytest.raises(ConfigError, match="is no address; write it as") as caught:
        HttpClient(f"http://user:pass-word@{host}/v1")

    assert "pass-word" not in str(caught.value)


@pytest.mark.parametrize("name", ["É", "A b", "", "a:", "(a)", "a\nb", "a ", "\u2603"])
def test_a_header_whose_name_is_no_token_is_refused(name: str) -> None:
    """Names of headers are those of RFC 9110, and a wrong one is told."""
    with pytest.raises(ConfigError) as caught:
        HttpClient("http://h", headers={"X-Team": "blue", name: "b"})

    assert str(caught.value).startswith(f"{name!r} is no name of a header")


def test_every_token_is_the_name_of_a_header(stand_in: StandIn) -> None:
    """What RFC 9110 allows in a name is sent as it is."""
    name = "X-!#$%&'*+.^_`|~9"
    client(stand_in, headers={name: "b"}).get_json("/health")

    assert stand_in.log[0].headers[name.lower()] == "b"


@pytest.mark.parametrize("value", ["a\nb", "\u2603", "a\x00"])
def test_a_header_that_cannot_be_sent_is_refused_without_its_value(value: str) -> None:
    """The name of the header is told, its value is not."""
    with pytest.raises(ConfigError, match="X-Key") as caught:
        HttpClient("http://h", headers={"X-Key": value})

    assert value not in str(caught.value)


def test_the_key_is_shown_nowhere(stand_in: StandIn) -> None:
    """A server that repeats the key in its error does not bring it into ours."""
    stand_in.fail(faults.status(400, {"error": f"bad key {KEY} {KEY}x tok-9999"}))
    http = client(
        stand_in, api_key=Secret(value=f" {KEY}\n"), headers={"api-token": "tok-9999"}
    )

    with pytest.raises(BadRequestError) as caught:
        http.post_json("/generate", {})

    assert KEY not in repr(caught.value) + str(caught.value)
    assert "tok-9999" not in str(caught.value)
    assert KEY not in repr(http)


def test_a_password_in_the_address_is_sent_and_not_shown(stand_in: StandIn) -> None:
    """``user:password@`` is basic authentication, and no part of a message."""
    http = HttpClient(stand_in.url.replace("http://", "http://user:pass-word@") + "/")
    http.get_json("/health")

    assert stand_in.log[0].headers["authorization"].startswith("Basic ")
    assert http.base_url == stand_in.url


def test_a_redirect_is_not_followed(stand_in: StandIn) -> None:
    """A post is not turned into another request at another place."""
    stand_in.fail(faults.status(301, "", Location="http://elsewhere/v1"))

    with pytest.raises(BadRequestError, match="http://elsewhere/v1"):
        client(stand_in).post_json("/generate", {})

    assert len(stand_in.log) == 1


def test_what_is_no_json_is_refused_before_it_is_sent(stand_in: StandIn) -> None:
    """A payload with a number that JSON lacks is the request's own fault."""
    with pytest.raises(BadRequestError, match="JSON"):
        client(stand_in).post_json("/generate", {"x": float("nan")})

    assert not stand_in.log


def test_events_come_one_by_one(stand_in: StandIn) -> None:
    """A stream is read as it comes, and left when its reader leaves."""
    stand_in.model.answer = " a b c"
    http = client(stand_in)
    whole = list(http.stream_sse("/generate", {"text": "x", "stream": True}))
    first = list(islice(http.stream_sse("/generate", {"text": "x", "stream": True}), 1))

    assert [event["text"] for event in whole] == [" a", " a b", " a b c"]
    assert [event["text"] for event in first] == [" a"]


def test_a_stream_may_wait_for_its_turn(stand_in: StandIn) -> None:
    """A busy server that begins a stream and then pauses is not given up."""

    def late(handler: faults.Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.end_headers()
        stand_in.released.wait(0.3)
        handler.wfile.write(b'data: {"a": 1}\n\n')
        handler.close_connection = True

    stand_in.fail(late)
    http = client(stand_in, timeouts=Timeouts(total_s=20, idle_s=0.05))

    assert list(http.stream_sse("/generate", {})) == [{"a": 1}]


@pytest.mark.parametrize(
    ("fault", "cls"),
    [
        (faults.events({"a": 1}), BackendUnavailableError),
        (faults.html_200, ResponseError),
        (faults.raw(200, b"data: {", "text/event-stream"), ResponseError),
        (faults.status(400), BadRequestError),
    ],
)
def test_a_broken_stream_is_an_error(
    stand_in: StandIn, fault: Fault, cls: type[BackendError]
) -> None:
    """A stream that is cut, is none, or is damaged never ends as if it were whole."""
    stand_in.fail(fault)

    with pytest.raises(cls):
        list(client(stand_in).stream_sse("/generate", {"text": "x"}))


def test_closing_twice_is_no_error(stand_in: StandIn) -> None:
    """A client may be closed again."""
    http = client(stand_in)
    http.post("/flush_cache")
    http.close()
    http.close()

    assert [entry.path for entry in stand_in.log] == ["/flush_cache"]


def test_a_cause_does_not_show_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a library says of its failure is redacted too."""
    monkeypatch.setenv("http_proxy", f"http://user:{KEY}@127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "")
    http = HttpClient(f"http://h.invalid?api-key={KEY}", api_key=Secret(value=KEY))

    with pytest.raises(
        BackendUnreachableError, match=r"proxy 127\.0\.0\.1:1"
    ) as caught:
        http.get_json("/v1/models")

    assert "NO_PROXY" in str(caught.value)
    assert KEY not in str(caught.value)


def test_a_query_goes_with_every_request(stand_in: StandIn) -> None:
    """What follows the question mark of an address stands after each path."""
    stand_in.fail_always(faults.status(400))
    http = HttpClient(f"{stand_in.url}/base/?api-version=2024-10-21&sig=s3cret-s3cret")

    with pytest.raises(BadRequestError) as caught:
        http.post_json("/chat", {})

    assert stand_in.log[0].path == "/base/chat?api-version=2024-10-21&sig=s3cret-s3cret"
    assert http.base_url == f"{stand_in.url}/base"
    assert "s3cret" not in str(caught.value)


def test_questions_share_a_deadline(stand_in: StandIn) -> None:
    """However many are asked one after another, all are over at the deadline."""
    stand_in.fail_always(faults.hang)
    begin = time.monotonic()
    http = client(stand_in).until(begin + 0.5)
    for _ in range(5):
        with pytest.raises(BackendTimeoutError):
            http.get_json("/model_info", timeout_s=0.2)

    assert time.monotonic() - begin < 3
    assert len(stand_in.log) < 5


def test_no_question_takes_longer_than_the_timeout(stand_in: StandIn) -> None:
    """A question's own patience does not exceed that of the user."""
    stand_in.fail(faults.hang)
    begin = time.monotonic()

    with pytest.raises(BackendTimeoutError):
        client(stand_in, timeouts=Timeouts(total_s=0.2)).get_json("/", timeout_s=15)

    assert time.monotonic() - begin < 5


def test_leaving_a_stream_hangs_up(stand_in: StandIn) -> None:
    """A server learns at once that nobody reads on, and can stop generating."""
    hung_up = threading.Event()

    def endless(handler: faults.Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.end_headers()
        handler.close_connection = True
        handler.wfile.write(b'data: {"a": 1}\n\n')
        if not handler.rfile.read(1):
            hung_up.set()

    stand_in.fail(endless)
    events = client(stand_in).stream_sse("/generate", {})
    first = next(events)
    events.close()

    assert first == {"a": 1}
    assert hung_up.wait(10)


def test_a_netrc_does_not_replace_the_key(
    stand_in: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A password that lies around for the same host is not sent in the key's place."""
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login user password other\n")
    monkeypatch.setenv("NETRC", str(netrc))
    client(stand_in, api_key=Secret(value=KEY)).get_json("/health")

    assert stand_in.log[0].headers["authorization"] == f"Bearer {KEY}"


def test_the_environment_is_read_once(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy of the environment is found at the start and used for every request."""
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    http = HttpClient("http://models.invalid")
    monkeypatch.delenv("http_proxy")

    with pytest.raises(BackendUnreachableError, match="refused"):
        http.get_json("/health")


def test_a_server_that_is_silent_in_a_handshake_speaks_no_tls() -> None:
    """A plain server that waits for a request is told apart from a slow one."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(BackendUnreachableError, match="does not speak TLS"):
            HttpClient(url, timeouts=Timeouts(total_s=0.3)).get_json("/health")
