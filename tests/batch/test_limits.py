"""Limits, and the limited backend before them."""

import threading
from collections.abc import Sequence

import pytest

from sglrun.backends.base import Request, SelectRequest
from sglrun.backends.mock import MockBackend
from sglrun.batch.limited import LimitedBackend
from sglrun.batch.limits import DeadlineError, Limits, RetryPolicy
from sglrun.batch.meter import Meter
from sglrun.errors import (
    AuthenticationError,
    BackendTimeoutError,
    BackendUnavailableError,
    BackendUnreachableError,
    BadRequestError,
    RateLimitError,
    RunStoppedError,
)
from sglrun.lang.prompt import Prompt
from sglrun.lang.sampling import DEFAULTS

WAIT_S = 20
REQUEST = Request(prompt=Prompt(text="q"), sampling=DEFAULTS)


class Clock:
    """A time that passes when someone waits, and only then."""

    def __init__(self) -> None:
        self.now = 100.0
        self.waits: list[float] = []

    def __call__(self) -> float:
        """Return the time."""
        return self.now

    def wait(self, changed: threading.Condition, seconds: float) -> None:
        """Let *seconds* pass."""
        del changed
        self.waits.append(round(seconds, 6))
        self.now += seconds


def limits_of(
    clock: Clock, *, max_in_flight: int = 8, chance: float = 1.0, retries: int = 4
) -> Limits:
    return Limits(
        max_in_flight=max_in_flight,
        policy=RetryPolicy(retries=retries),
        clock=clock,
        chance=lambda: chance,
        wait=clock.wait,
    )


def ask(
    answers: Sequence[str | Exception],
    limits: Limits,
    timeout_s: float | None = None,
) -> tuple[str, Meter]:
    meter = Meter()
    backend = LimitedBackend(MockBackend(answers), limits, meter, timeout_s=timeout_s)
    return backend.generate(REQUEST).samples[0].text, meter


def test_an_error_that_may_pass_is_tried_again() -> None:
    """Waits double from try to try; what the answered try cost is counted."""
    clock = Clock()
    failures = [BackendUnavailableError("503")] * 4
    text, meter = ask([*failures, "fine"], limits_of(clock))

    assert text == "fine"
    assert clock.waits == [0.5, 1.0, 2.0, 4.0]
    assert meter.attempts == 5
    assert meter.usage.requests == 1


def test_waits_are_drawn() -> None:
    """A wait is a share of the longest, drawn anew each time."""
    clock = Clock()
    ask([BackendUnavailableError("503"), "fine"], limits_of(clock, chance=0.25))

    assert clock.waits == [0.125]


def test_tries_end() -> None:
    """After the last try the error is the caller's."""
    clock = Clock()
    limits = limits_of(clock, retries=2)
    with pytest.raises(BackendUnavailableError, match="third"):
        ask([BackendUnavailableError(n) for n in ("first", "second", "third")], limits)

    assert limits.failure is None


def test_what_would_fail_again_is_not_tried_again() -> None:
    """A request that the server refuses is sent once."""
    with pytest.raises(BadRequestError):
        ask([BadRequestError("400"), "never"], limits_of(Clock()))


def test_a_hint_is_waited_for_and_uses_up_no_try() -> None:
    """Waits that the server asks for are as long as it says, and not counted."""
    clock = Clock()
    throttled = [RateLimitError("429", retry_after_s=2.0)] * 9
    text, meter = ask([*throttled, "fine"], limits_of(clock, chance=0.5, retries=0))

    assert text == "fine"
    assert meter.attempts == 10
    assert clock.waits == [pytest.approx(2.1)] * 9


def test_throttling_ends_at_last() -> None:
    """A server that is never ready for a request fails it, not the run."""
    clock = Clock()
    limits = limits_of(clock)
    with pytest.raises(RateLimitError):
        ask([RateLimitError("429", retry_after_s=100.0)] * 9, limits)

    assert sum(clock.waits) <= RetryPolicy().longest_throttled_s
    assert limits.failure is None


def test_a_hint_holds_for_all() -> None:
    """While the server asks to wait, no other request begins."""
    clock = Clock()
    limits = limits_of(clock)
    limits.throttled(began=clock.now, hint_s=3.0)
    ask(["fine"], limits)

    assert clock.waits == [3.0]


def test_a_long_hint_freezes_nobody_else() -> None:
    """Others wait a minute at most."""
    clock = Clock()
    limits = limits_of(clock)
    limits.throttled(began=clock.now, hint_s=86400.0)
    ask(["fine"], limits)

    assert clock.waits == [60.0]


def test_a_burst_halves_once_and_answers_bring_back() -> None:
    """Of a burst only the first error cuts; each answer lets a little more through."""
    clock = Clock()
    limits = limits_of(clock, max_in_flight=24)
    for _ in range(24):
        limits.throttled(began=clock.now, hint_s=None)

    assert limits.allowed == 12

    clock.now += 1
    limits.throttled(began=clock.now, hint_s=None)

    assert limits.allowed == 6

    for _ in range(1000):
        limits.answered()

    assert limits.allowed == 24


def test_an_error_that_no_row_survives_stops_all() -> None:
    """After a refused key nobody asks any more, and all are told why."""
    limits = limits_of(Clock())
    with pytest.raises(AuthenticationError):
        ask([AuthenticationError("401")], limits)
    with pytest.raises(AuthenticationError, match="401"):
        ask(["never sent"], limits)


def test_a_server_that_is_gone_is_tried_again_first() -> None:
    """Nothing listening is fatal only after the last try."""
    limits = limits_of(Clock(), retries=1)
    text, _ = ask([BackendUnreachableError("refused"), "back"], limits)

    assert text == "back"
    with pytest.raises(BackendUnreachableError):
        ask([BackendUnreachableError("refused")] * 2, limits)
    assert isinstance(limits.failure, BackendUnreachableError)


def test_a_row_out_of_time_asks_no_more() -> None:
    """A wait beyond the row's time ends with the last error, or says so itself."""
    clock = Clock()
    limits = limits_of(clock)
    with pytest.raises(BackendUnavailableError, match="503"):
        ask([BackendUnavailableError("503")] * 5, limits, timeout_s=2.0)

    assert clock.now == 102.0
    with pytest.raises(BackendTimeoutError, match="not done after 0 s"):
        ask(["never sent"], limits, timeout_s=0.0)
    with pytest.raises(DeadlineError), limits.slot(clock.now):
        pass


def test_places_are_limited() -> None:
    """No more requests are under way than allowed; a free place lets one begin."""
    limits = Limits(max_in_flight=2)
    lock, most = threading.Lock(), 0
    entered = threading.Semaphore(0)
    leave = threading.Event()

    def hold() -> None:
        nonlocal most
        with limits.slot():
            with lock:
                most = max(most, limits.in_flight)
            entered.release()
            assert leave.wait(WAIT_S)

    threads = [threading.Thread(target=hold) for _ in range(6)]
    for thread in threads:
        thread.start()
    for _ in range(2):
        assert entered.acquire(timeout=WAIT_S)

    assert not entered.acquire(blocking=False)

    leave.set()
    for thread in threads:
        thread.join(WAIT_S)

    assert most == 2
    assert limits.in_flight == 0


def test_a_failure_wakes_all_who_wait() -> None:
    """Who waits for a place or for another try raises the failure at once."""
    limits = Limits(max_in_flight=1)
    caught: list[BaseException] = []

    def wait_for_place() -> None:
        try:
            with limits.slot():
                pass
        except RunStoppedError as exc:
            caught.append(exc)

    def wait_for_time() -> None:
        try:
            limits.sleep(1e9)
        except RunStoppedError as exc:
            caught.append(exc)

    threads = [
        threading.Thread(target=target)
        for target in (wait_for_place, wait_for_place, wait_for_time)
    ]
    with limits.slot():
        for thread in threads:
            thread.start()
        reason = RunStoppedError("over")
        limits.fail(reason)
        for thread in threads:
            thread.join(WAIT_S)

    assert caught == [reason] * 3


def test_draining_ends_waits_for_another_try() -> None:
    """When the run is to end, a request that waits fails as it last did."""
    limits = Limits(max_in_flight=1)
    limits.drain()
    with pytest.raises(BackendUnavailableError):
        ask([BackendUnavailableError("503"), "never"], limits)

    text, _ = ask(["of a row in flight"], limits)

    assert text == "of a row in flight"


def test_a_choice_is_limited_and_counted_too() -> None:
    """What ``select`` asks goes the same way."""
    meter = Meter()
    backend = LimitedBackend(MockBackend(), Limits(max_in_flight=1), meter)
    backend.select(SelectRequest(prompt=Prompt(text="q"), choices=("a", "b")))

    assert meter.usage.requests == 1
    assert meter.attempts == 1


def test_the_rest_is_the_backends_own() -> None:
    """What is no request of the row reaches the backend as it is."""
    inner = MockBackend("x")
    backend = LimitedBackend(inner, Limits(max_in_flight=1), Meter())
    backend.cache_prefix(Prompt(text="a b"))

    assert backend.count_tokens("a b c") == 3
    assert backend.get_server_info() == inner.get_server_info()
    assert inner.prefixes == ["a b"]
    assert backend.flush_cache()


def test_no_place_at_all_is_refused() -> None:
    """At least one request must be able to go."""
    with pytest.raises(ValueError, match="at least 1, not 0"):
        Limits(max_in_flight=0)
