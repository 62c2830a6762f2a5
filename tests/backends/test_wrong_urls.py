"""Wrong addresses, on real sockets: each is told as what it is, with what to do."""

import time
from collections.abc import Callable

import pytest

from sglrun.backends import create_backend
from sglrun.backends.base import BackendOptions
from sglrun.errors import (
    BackendError,
    BackendTimeoutError,
    BackendUnavailableError,
    BackendUnreachableError,
    BadRequestError,
    ConfigError,
    ResponseError,
)
from tests import stand_in as faults
from tests.stand_in import TLS_PEM, Fault, StandIn

KINDS = ("auto", "openai", "anthropic", "sglang")
moved = faults.status(301, "", Location="https://elsewhere/v1")
page_404 = faults.raw(404, b"<title>Not here</title>", "text/html")


def opened(kind: str, url: str, timeout_s: float = 20.0) -> str:
    options = BackendOptions(url=url, timeout_s=timeout_s, chat_template="chatml")
    with create_backend(kind, options) as made:
        return str(made.kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("end", ["", "/", "/v1", "/v1/", "/v1/models", "/health"])
def test_one_server_has_many_addresses(stand_in: StandIn, kind: str, end: str) -> None:
    """With and without ``/v1``, a slash or a path that was copied with it."""
    assert opened(kind, stand_in.url + end) in (kind, "sglang", "openai")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("fault", "error", "advice"),
    [
        (faults.html_200, ResponseError, "an HTML page; is this the address of a"),
        (faults.html_502, BackendUnavailableError, "502: an HTML page .502 Bad"),
        (moved, BadRequestError, "'https://elsewhere/v1' now; give that one with"),
        (faults.reset, BackendUnavailableError, "https:// in place of http://"),
        (page_404, (ConfigError, BadRequestError), "/v1|no SGLang server"),
    ],
    ids=["page", "proxy's page", "moved", "reset", "page not found"],
)
def test_another_kind_of_server_is_told(
    stand_in: StandIn,
    kind: str,
    fault: Fault,
    error: type[BackendError],
    advice: str,
) -> None:
    """What answers there is said, and what to do about it."""
    stand_in.fail_always(fault)

    with pytest.raises(error, match=advice):
        opened(kind, stand_in.url)


@pytest.mark.parametrize("kind", KINDS)
def test_tls_where_there_is_none(stand_in: StandIn, kind: str) -> None:
    """The other scheme is advised, and trying again is not."""
    with pytest.raises(BackendUnreachableError, match="http:// in place of") as caught:
        opened(kind, stand_in.url.replace("http:", "https:"))

    assert not caught.value.retryable


@pytest.mark.parametrize("kind", KINDS)
def test_no_tls_where_there_is_some(kind: str) -> None:
    """A server of TLS hangs up on a plain request; the other scheme is advised."""
    with (
        StandIn(tls=True) as server,
        pytest.raises(BackendUnavailableError, match="https:// in place of http"),
    ):
        opened(kind, server.url.replace("https:", "http:"))


@pytest.mark.parametrize("kind", KINDS)
def test_an_authority_of_ones_own(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A certificate counts where the variable of the error names its authority."""
    with StandIn(tls=True) as server:
        with pytest.raises(BackendUnreachableError, match="REQUESTS_CA_BUNDLE"):
            opened(kind, server.url)
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(TLS_PEM))

        assert opened(kind, server.url)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fault", [faults.hang, faults.drip])
def test_the_questions_end_in_time(stand_in: StandIn, kind: str, fault: Fault) -> None:
    """However many questions there are, all of them take the timeout of one request."""
    stand_in.fail_always(fault)
    begin = time.monotonic()

    with pytest.raises(BackendTimeoutError, match="--timeout"):
        opened(kind, stand_in.url, timeout_s=0.4)

    assert time.monotonic() - begin < 4


def slowly(path: str) -> Callable[[StandIn], None]:
    return lambda server: server.fail_always(faults.hang, path)


@pytest.mark.parametrize("path", ["/tokenize", "/get_server_info", "/version"])
def test_a_question_that_is_not_answered_costs_its_power(
    stand_in: StandIn, path: str
) -> None:
    """A server that hangs on a side question is used without what it would tell."""
    stand_in.fail_always(faults.hang, path)
    begin = time.monotonic()

    assert opened("auto", stand_in.url, timeout_s=0.4) == "sglang"
    assert time.monotonic() - begin < 4


def test_a_forbidden_question_is_no_refused_key(stand_in: StandIn) -> None:
    """A gateway that lets only ``/v1`` through is asked there."""
    forbidden = faults.raw(403, b"<title>Forbidden</title>", "text/html")
    for path in ("/model_info", "/get_model_info"):
        stand_in.fail_always(forbidden, path)

    assert opened("auto", stand_in.url) == "openai"
