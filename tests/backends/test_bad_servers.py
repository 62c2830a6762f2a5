"""Bad servers, on real sockets: each is a named error or tried again, never a hang."""

import itertools
import threading
import time
from typing import NamedTuple

import pytest

from sglrun.backends import create_backend
from sglrun.backends.base import Backend, BackendOptions, OnText, Request, Sample
from sglrun.batch.limited import LimitedBackend
from sglrun.batch.limits import Limits
from sglrun.batch.meter import Meter
from sglrun.batch.retries import RetryPolicy
from sglrun.errors import (
    AuthenticationError,
    BackendError,
    BackendTimeoutError,
    BackendUnavailableError,
    BackendUnreachableError,
    BadRequestError,
    ModelNotFoundError,
    RateLimitError,
    ResponseError,
)
from sglrun.lang.prompt import Prompt
from sglrun.lang.sampling import DEFAULTS
from tests import stand_in as faults
from tests.stand_in import Fault, Handler, StandIn

TIMEOUT_S = 1.0
KINDS = ("sglang", "openai", "anthropic")


class Bad(NamedTuple):
    """What goes wrong once, and what it is.

    Attributes:
        fault: what the server does.
        error: the error of the request.
        message: a part of what it says.
        again: whether trying again helps.
        ends_run: whether no other row can succeed either.
    """

    fault: Fault
    error: type[BackendError]
    message: str
    again: bool = False
    ends_run: bool = False


def said(status: int, text: str, **headers: str) -> Fault:
    return faults.status(status, {"error": {"message": text}}, **headers)


def cut_events(handler: Handler) -> None:
    """Begin a stream, and hang up in the middle of an event."""
    handler.send_response(200)
    handler.send_header("Content-Type", "text/event-stream")
    handler.end_headers()
    handler.wfile.write(b'data: {"text": "OU')
    handler.close_connection = True


BUSY = BackendUnavailableError
BAD: dict[str, Bad] = {
    "401": Bad(said(401, "no"), AuthenticationError, "--api-key-env", ends_run=True),
    "403": Bad(said(403, "no"), AuthenticationError, "not allowed", ends_run=True),
    "404 model": Bad(
        said(404, "no model m"), ModelNotFoundError, "no model", ends_run=True
    ),
    "404": Bad(said(404, "Not Found"), BadRequestError, "check the URL", ends_run=True),
    "400 too long": Bad(said(400, "3001 of 2048"), BadRequestError, "3001 of 2048"),
    "413": Bad(said(413, "large"), BadRequestError, "too large for the server"),
    "422": Bad(said(422, "no list"), BadRequestError, "no list"),
    "429": Bad(said(429, "slow"), RateLimitError, "slow", again=True),
    "429 with a hint": Bad(
        said(429, "slow", Retry_After="1"), RateLimitError, "slow", again=True
    ),
    "500": Bad(said(500, "oops"), BUSY, "oops", again=True),
    "502 page": Bad(faults.html_502, BUSY, "502 Bad Gateway", again=True),
    "503": Bad(said(503, "loading"), BUSY, "loading", again=True),
    "529": Bad(said(529, "overloaded"), BUSY, "overloaded", again=True),
    "truncated": Bad(faults.truncated_json, ResponseError, "no whole JSON", again=True),
    "wrong type": Bad(faults.html_200, ResponseError, "an HTML page", again=True),
    "empty": Bad(faults.empty_body, ResponseError, "an empty body", again=True),
    "cut": Bad(faults.cut_body, BUSY, "failed", again=True),
    "reset": Bad(faults.reset, BUSY, "reset", again=True),
    "wrong UTF-8": Bad(faults.bad_utf8, ResponseError, "no whole JSON", again=True),
    "silent": Bad(faults.hang, BackendTimeoutError, "--timeout", again=True),
    "dripping": Bad(faults.drip, BackendTimeoutError, "--timeout", again=True),
}
STREAMED: dict[str, Bad] = {
    **{name: BAD[name] for name in ("401", "429", "502 page", "reset", "silent")},
    "no stream": Bad(
        faults.html_200, ResponseError, "in place of a stream", again=True
    ),
    "cut stream": Bad(cut_events, BackendError, "failed|JSON|middle", again=True),
    "wrong UTF-8": Bad(
        faults.raw(200, b'data: {"text": "\xff"}\n\n', "text/event-stream"),
        ResponseError,
        "not UTF-8",
        again=True,
    ),
    "no end": Bad(
        faults.raw(200, b"data: [DONE]\n\n", "text/event-stream"),
        ResponseError,
        "middle",
        again=True,
    ),
    "error inside": Bad(
        faults.events({"error": {"message": "died", "code": 503}}, end=True),
        BUSY,
        "died",
        again=True,
    ),
}
EVERY = [*((bad, None) for bad in BAD.items()), *((b, print) for b in STREAMED.items())]


def opened(server: StandIn, kind: str) -> Backend:
    if kind == "anthropic":
        server.model.kind = "anthropic"
    options = BackendOptions(
        url=server.url, timeout_s=TIMEOUT_S, chat_template="chatml", model="stand-in"
    )
    return create_backend(kind, options)


def asked(backend: Backend, on_text: OnText | None) -> Sample:
    prompt = Prompt(template=backend.chat_template).with_role_begin("user")
    prompt = prompt.with_text("hi").with_role_end("user").with_role_begin("assistant")
    request = Request(prompt=prompt, sampling=DEFAULTS)
    return backend.generate(request, on_text).samples[0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("named", "on_text"), EVERY, ids=[f"{n}-{bool(t)}" for (n, _), t in EVERY]
)
def test_each_is_a_named_error_or_is_tried_again(
    stand_in: StandIn, kind: str, named: tuple[str, Bad], on_text: OnText | None
) -> None:
    """The error says what came; where trying again helps, the row is answered."""
    _, bad = named
    backend = opened(stand_in, kind)
    begin = time.monotonic()
    before = len(stand_in.generations)
    stand_in.fail(bad.fault)
    with pytest.raises(bad.error, match=bad.message) as caught:
        asked(backend, on_text)

    assert time.monotonic() - begin < TIMEOUT_S + 5
    assert (caught.value.retryable, caught.value.fatal) == (bad.again, bad.ends_run)

    stand_in.fail(bad.fault)
    meter = Meter()
    hopeful = LimitedBackend(backend, patient(), meter)
    if bad.again:
        assert asked(hopeful, None).text
        assert meter.attempts == 2
    else:
        with pytest.raises(bad.error):
            asked(hopeful, None)
        assert len(stand_in.generations) == before + 2
    backend.close()


def patient() -> Limits:
    """Return limits whose waits pass at once."""
    ticks = itertools.count()

    def pass_by(_: threading.Condition, __: float) -> None:
        next(ticks)

    return Limits(
        max_in_flight=2,
        policy=RetryPolicy(retries=1),
        clock=lambda: float(next(ticks)) * 100,
        wait=pass_by,
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_goes_away_is_unreachable(kind: str) -> None:
    """A server that is stopped in the middle of a run ends it, if it stays away."""
    with StandIn() as server:
        backend = opened(server, kind)
        asked(backend, None)

    with pytest.raises(BackendUnavailableError):
        asked(backend, None)
    with pytest.raises(BackendUnreachableError, match="nothing listens there") as last:
        asked(backend, None)

    assert last.value.retryable
    assert last.value.fatal
    backend.close()
