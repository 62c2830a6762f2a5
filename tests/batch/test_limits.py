"""Limits, and the limited backend before them."""

import threading
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack, suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglrun.backends.base import Request, SelectRequest, Usage
from sglrun.backends.mock import Answers, MockBackend
from sglrun.batch.allowance import Allowance
from sglrun.batch.budget import token_budget
from sglrun.batch.limited import LimitedBackend
from sglrun.batch.limits import DeadlineError, Limits
from sglrun.batch.meter import Meter
from sglrun.batch.needs import NeedCounter
from sglrun.batch.retries import RetryPolicy
from sglrun.errors import (
    AuthenticationError,
    BackendError,
    BackendTimeoutError,
    BackendUnavailableError,
    BackendUnreachableError,
    BadRequestError,
    RateLimitError,
    RunStoppedError,
    UnsupportedFeatureError,
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
    clock: Clock,
    *,
    max_in_flight: int = 8,
    chance: float = 1.0,
    retries: int = 4,
    allowance: Allowance | None = None,
    on_note: Callable[[str], None] = lambda _: None,
) -> Limits:
    return Limits(
        max_in_flight=max_in_flight,
        policy=RetryPolicy(retries=retries),
        allowance=allowance,
        on_note=on_note,
        clock=clock,
        chance=lambda: chance,
        wait=clock.wait,
    )


def ask(
    answers: Answers,
    limits: Limits,
    timeout_s: float | None = None,
    *,
    counted: bool = False,
) -> tuple[str, Meter]:
    meter, mock = Meter(), MockBackend(answers)
    needs = NeedCounter(mock) if counted else None
    backend = LimitedBackend(mock, limits, meter, needs=needs, timeout_s=timeout_s)
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
    """A server that answers others and never this request fails it, not the run."""
    clock = Clock()
    limits = limits_of(clock, max_in_flight=10_000)

    def throttled(_: Request) -> Exception:
        with limits.slot() as slot:
            limits.answered(slot, Usage(requests=1))
        return RateLimitError("429", retry_after_s=100.0)

    with pytest.raises(RateLimitError):
        ask(throttled, limits)

    assert sum(clock.waits) <= RetryPolicy().longest_throttled_s
    assert limits.failure is None


def throttle(limits: Limits, hint_s: float | None, *, slots: int = 1) -> None:
    """Let *slots* requests that are under way at once be told to slow down."""
    with ExitStack() as stack:
        held = [stack.enter_context(limits.slot()) for _ in range(slots)]
        for slot in held:
            limits.failed(slot, RateLimitError("429", retry_after_s=hint_s))


def test_a_hint_holds_for_all() -> None:
    """While the server asks to wait, no other request begins."""
    clock = Clock()
    limits = limits_of(clock)
    throttle(limits, 3.0)
    ask(["fine"], limits)

    assert clock.waits == [3.0]


def test_a_long_hint_freezes_nobody_else() -> None:
    """Others wait a minute at most, and the user is told once until when."""
    clock, notes = Clock(), list[str]()
    limits = limits_of(clock, on_note=notes.append)
    throttle(limits, 86400.0)
    ask(["fine"], limits)
    throttle(limits, 86400.0)

    assert clock.waits == [60.0]
    assert len(notes) == 1
    assert notes[0].startswith("the server asks to slow down: waiting until ")
    assert "it says until 2" in notes[0]
    assert limits.waiting.startswith("rate limited until ")


def test_a_hint_that_cannot_be_is_tried_in_a_minute() -> None:
    """A request that is told to come back in a day asks again in a minute."""
    clock = Clock()
    text, meter = ask(
        [RateLimitError("429", retry_after_s=86400.0), "fine"], limits_of(clock)
    )

    assert (text, meter.attempts) == ("fine", 2)
    assert clock.now - 100.0 == pytest.approx(66.0)


def test_a_server_that_lets_nobody_in_ends_the_run() -> None:
    """Where no request had luck for ten minutes, no row can; else only that row fails.

    The run says until when the server asks to wait.
    """
    clock = Clock()
    limits = limits_of(clock)
    with pytest.raises(RateLimitError):
        ask([RateLimitError("429", retry_after_s=86400.0)] * 20, limits)

    assert isinstance(limits.failure, RunStoppedError)
    assert "has let no request in for 594 s; it asks to wait until 2" in str(
        limits.failure
    )


def test_a_used_up_quota_is_waited_for() -> None:
    """An answer that says nothing is left holds the next request back."""
    clock = Clock()
    limits = limits_of(clock)
    with limits.slot() as slot:
        limits.answered(slot, Usage(requests=1), pause_s=7.0)
    ask(["fine"], limits)

    assert clock.waits == [7.0]


def test_a_quota_that_is_used_up_and_goes_on_is_not_believed() -> None:
    """A server that answers while it says nothing is left freezes nobody."""
    clock = Clock()
    limits = limits_of(clock)
    for _ in range(5):
        with limits.slot() as slot:
            limits.answered(slot, Usage(requests=1), pause_s=2_592_000.0)

    assert clock.waits == [60.0]


def test_a_burst_halves_once_and_answers_bring_back() -> None:
    """Of a burst only the first error cuts; each answer lets a little more through."""
    clock = Clock()
    limits = limits_of(clock, max_in_flight=24)
    throttle(limits, None, slots=24)

    assert limits.allowed == 12

    clock.now += 1
    throttle(limits, None)

    assert limits.allowed == 6

    for _ in range(1000):
        with limits.slot() as slot:
            limits.answered(slot, Usage(requests=1))

    assert limits.allowed == 24


def test_an_error_that_no_row_survives_stops_all() -> None:
    """After a refused key nobody asks any more, and all are told why."""
    limits = limits_of(Clock())
    with pytest.raises(AuthenticationError):
        ask([AuthenticationError("401")], limits)
    with pytest.raises(AuthenticationError, match="401"):
        ask(["never sent"], limits)


@pytest.mark.parametrize("kind", [UnsupportedFeatureError, BadRequestError])
def test_a_request_that_was_refused_here_cost_nothing(kind: type[BackendError]) -> None:
    """What a backend cannot do was not sent, so nothing of it is lost."""
    limits = limits_of(Clock())
    with pytest.raises(kind):
        ask([kind("no regex, or a prompt that does not fit")], limits)

    assert limits.allowance.unknown == Usage()


def test_a_server_that_was_never_there_ends_the_run() -> None:
    """Nothing listening from the start is fatal after the last try."""
    limits = limits_of(Clock(), retries=1)
    with pytest.raises(BackendUnreachableError):
        ask([BackendUnreachableError("refused")] * 2, limits)

    assert isinstance(limits.failure, BackendUnreachableError)


def test_a_server_that_goes_down_is_waited_for() -> None:
    """Tries at growing intervals go on until it is back, and use up no attempts."""
    clock, notes = Clock(), list[str]()
    limits = limits_of(clock, retries=0, on_note=notes.append)
    ask(["fine"], limits)
    down = [BackendUnreachableError("refused")] * 7
    text, _ = ask([*down, "back"], limits)

    assert text == "back"
    assert clock.waits == [0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    assert len(notes) == 2
    assert notes[0].startswith("the server is down since ")
    assert notes[0].endswith("for it (--wait-for-server): refused")
    assert notes[1] == "the server is back"
    assert limits.waiting == ""


def test_a_server_that_stays_down_ends_the_run() -> None:
    """After the patience the run ends, to be resumed, and says why."""
    clock = Clock()
    limits = limits_of(clock)
    ask(["fine"], limits)
    with pytest.raises(RunStoppedError, match=r"did not come back in 120 s .*refused"):
        ask([BackendUnreachableError("refused")] * 99, limits)

    assert sum(clock.waits) == 120.0
    assert isinstance(limits.failure, RunStoppedError)
    assert limits.waiting.startswith("server down since ")


def test_a_hiccup_is_not_told() -> None:
    """A server that is back at the first try was not down for anybody."""
    notes: list[str] = []
    limits = limits_of(Clock(), on_note=notes.append)
    ask(["fine"], limits)
    ask([BackendUnreachableError("refused"), "back"], limits)

    assert notes == []


def test_one_request_at_a_time_tries_a_server_that_is_down() -> None:
    """While one tries, others wait; they all go when it was answered."""
    limits = Limits(max_in_flight=8, patience_s=1e9)
    ask(["fine"], limits)
    together = threading.Barrier(6)
    under_way: list[int] = []
    left = deque([BackendUnreachableError("refused")] * 7)

    def answer(_: Request) -> str | Exception:
        if len(under_way) < 6:  # the first of each, sent before it was known
            under_way.append(1)
            together.wait(WAIT_S)
            return left.popleft()
        under_way.append(limits.in_flight)
        return left.popleft() if left else "back"

    backend = MockBackend(answer)
    texts: list[str] = []

    def row() -> None:
        limited = LimitedBackend(backend, limits, Meter())
        texts.append(limited.generate(REQUEST).samples[0].text)

    threads = [threading.Thread(target=row) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)

    assert texts == ["back"] * 6
    assert under_way[6:8] == [1, 1]


def test_a_signal_ends_the_wait_for_a_server() -> None:
    """A run that is to end waits for no server to come back."""
    limits = Limits(max_in_flight=1, patience_s=1e9)
    ask(["fine"], limits)

    def fail(_: Request) -> Exception:
        limits.drain()
        return BackendUnreachableError("refused")

    with pytest.raises(BackendUnreachableError):
        ask(fail, limits)


def test_no_more_is_sent_than_the_rates_allow() -> None:
    """Requests of many threads are spread as the rates say; waits use up no try."""
    clock = Clock()
    allowance = Allowance(requests_per_minute=60, tokens_per_minute=100_000)
    limits = limits_of(clock, retries=0, allowance=allowance)
    began: list[float] = []

    def answer(_: Request) -> str:
        began.append(clock.now)
        return "fine"

    for _ in range(80):
        _, meter = ask(answer, limits)

        assert meter.attempts == 1
    busiest = max(sum(t <= other < t + 60 for other in began) for t in began)

    assert busiest == 60


def test_tokens_that_were_not_taken_are_given_back() -> None:
    """A rate counts what the answer says, not what it might have been."""
    clock = Clock()
    limits = limits_of(clock, allowance=Allowance(tokens_per_minute=6000))
    for _ in range(40):
        ask(["one two three"], limits, counted=True)

    assert sum(clock.waits) < 5


@given(
    st.integers(300, 3000),
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 9)), max_size=60),
)
def test_a_budget_is_never_passed(limit: int, asked: list[tuple[int, int]]) -> None:
    """However many ask at once, and however they fail, no more is spent."""
    budget = token_budget(limit)
    limits = Limits(max_in_flight=16, allowance=Allowance(budgets=[budget]))
    spent = [0]
    lock = threading.Lock()

    def answer(request: Request) -> str | Exception:
        words, fault = asked[int(request.prompt.text.split()[0])]
        if fault == 9:
            return BadRequestError("no", http_status=400)
        with lock:
            spent[0] += len(request.prompt.text.split()) + words
        return BackendTimeoutError("late") if fault == 8 else " w" * words

    def row(number: int) -> None:
        prompt = Prompt(text=f"{number} " + "p " * 5)
        request = Request(prompt=prompt, sampling=DEFAULTS)
        needs = NeedCounter(backend)
        limited = LimitedBackend(backend, limits, Meter(), needs=needs)
        with suppress(BackendError, RunStoppedError):
            limited.generate(request)

    backend = MockBackend(answer)
    limits.policy = RetryPolicy(retries=1, first_backoff_s=0.0)
    threads = [threading.Thread(target=row, args=(n,)) for n in range(len(asked))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)

    assert spent[0] <= budget.spent <= limit


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
