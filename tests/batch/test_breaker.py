"""The breaker: what opens it, and what does not."""

import pytest

from sglrun.batch.breaker import Breaker
from sglrun.errors import (
    BackendError,
    BackendTimeoutError,
    BackendUnavailableError,
    BackendUnreachableError,
    BadRequestError,
    RateLimitError,
    ResponseError,
)

REFUSED = BackendUnreachableError("refused")
BROKEN = BackendUnavailableError("reset")


def answered() -> Breaker:
    """Return a breaker before a server that has answered."""
    breaker = Breaker(60.0)
    breaker.answered()
    return breaker


def unavailable(status: int) -> BackendError:
    return BackendUnavailableError(str(status), http_status=status)


def test_nothing_listening_from_the_start_opens_nothing() -> None:
    """A server that was never there is not waited for."""
    breaker = Breaker(60.0)

    assert not any(breaker.failed(REFUSED, number, 1.0) for number in range(9))


@pytest.mark.parametrize(
    "before",
    [BROKEN, unavailable(503), unavailable(500), BadRequestError("", http_status=400)],
)
def test_a_server_that_was_heard_of_is_waited_for(before: BackendError) -> None:
    """One refused connection opens it where anything came from there before."""
    breaker = Breaker(60.0)
    breaker.failed(before, 0, 1.0)

    assert breaker.failed(REFUSED, 1, 2.0)


@pytest.mark.parametrize("status", [502, 503, 504, 529])
def test_a_proxy_before_a_dead_server_opens_it(status: int) -> None:
    """Three requests in a row that a proxy could not place are the server's fault."""
    breaker = answered()

    assert [breaker.failed(unavailable(status), n, 1.0) for n in (1, 2, 3)] == [
        *(False, False, True)
    ]


def test_one_request_that_fails_again_and_again_opens_nothing() -> None:
    """A request that breaks the server's worker each time fails alone."""
    breaker = answered()

    assert not any(breaker.failed(BROKEN, 7, 1.0) for _ in range(20))


def test_answers_between_failures_keep_it_closed() -> None:
    """Failures count in a row only."""
    breaker = answered()
    for number in range(10):
        assert not breaker.failed(BROKEN, number, 1.0)
        breaker.answered()


@pytest.mark.parametrize(
    "error",
    [
        unavailable(500),
        BackendTimeoutError("late"),
        RateLimitError("429", http_status=429),
        BadRequestError("400", http_status=400),
        ResponseError("no JSON", http_status=200),
    ],
)
def test_other_errors_open_nothing(error: BackendError) -> None:
    """What is said of one request says nothing of the server."""
    breaker = answered()

    assert not any(breaker.failed(error, number, 1.0) for number in range(9))


def test_what_waiting_cannot_mend_opens_nothing() -> None:
    """A certificate that is not trusted is no server that is down."""
    breaker, error = answered(), BackendUnreachableError("TLS")
    error.retryable = False

    assert not breaker.failed(error, 1, 1.0)


def test_one_tries_at_a_time_until_the_patience_ends() -> None:
    """Others wait for the one that tries; the last try is when patience ends."""
    breaker, now, tries = answered(), 100.0, []
    breaker.failed(REFUSED, 1, now)
    while now < breaker.until:
        now += breaker.wait_s(now)
        breaker.begin(1)

        assert breaker.wait_s(now) == float("inf")

        breaker.failed(REFUSED, 1, now)
        breaker.end(1)
        tries.append(now - 100.0)

    assert tries == [0.5, 1.5, 3.5, 7.5, 15.5, 25.5, 35.5, 45.5, 55.5, 60.0]


def test_the_patience_begins_when_it_opens() -> None:
    """A request that failed long before takes nothing of the wait."""
    breaker = answered()
    breaker.failed(BROKEN, 1, 100.0)
    breaker.failed(REFUSED, 2, 1000.0)

    assert breaker.until == 1060.0


def test_a_try_that_ends_without_a_word_lets_the_next_one_try() -> None:
    """A row that gives up while it tries holds nobody."""
    breaker = answered()
    breaker.failed(REFUSED, 1, 1.0)
    breaker.begin(1)
    breaker.end(1)

    assert breaker.wait_s(10.0) == 0.0


def test_an_error_of_the_model_shows_that_it_is_back() -> None:
    """A server that refuses a request by name is there."""
    breaker = answered()
    breaker.failed(REFUSED, 1, 1.0)
    breaker.failed(BadRequestError("400", http_status=400), 2, 2.0)

    assert breaker.wait_s(2.0) == 0.0


@pytest.mark.parametrize("error", [BROKEN, unavailable(502), unavailable(504)])
def test_what_a_request_may_have_done_itself_is_in_doubt(error: BackendError) -> None:
    """Before it opens for that, something else is asked; an answer keeps it closed."""
    breaker = answered()
    doubts = []
    for number in (1, 2, 3):
        doubts.append(breaker.is_in_doubt(error, number))
        breaker.failed(error, number, 1.0, alive=doubts[-1])

    assert doubts == [False, False, True]
    assert breaker.error is None


@pytest.mark.parametrize("error", [REFUSED, unavailable(503), unavailable(529)])
def test_what_a_server_says_of_itself_is_in_no_doubt(error: BackendError) -> None:
    """A refused connection, and a server that says it is overloaded, are clear."""
    breaker = answered()
    for number in (1, 2, 3):
        assert not breaker.is_in_doubt(error, number)
        breaker.failed(error, number, 1.0)

    assert breaker.error is error
