"""Limits: when a request is sent, and when none may be any more.

Rule: the only module that waits by the clock before it asks a backend again. Who waits
goes in the order of coming, so that small requests do not pass a large one for ever.
"""

import itertools
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sglrun.backends.base import Usage
from sglrun.batch.allowance import Allowance, Held, may_have_cost
from sglrun.batch.breaker import Breaker
from sglrun.batch.needs import ONE_REQUEST, Need
from sglrun.batch.notices import (
    down,
    gone,
    shut_out,
    slowed_down,
    waiting_for,
)
from sglrun.batch.pause import Pause
from sglrun.batch.retries import RetryPolicy
from sglrun.batch.window import Window
from sglrun.errors import BackendError, RateLimitError, RunStoppedError, SglrunError

PATIENCE_S = 120.0
"""How long a server that goes down is waited for, where nobody says."""


class DeadlineError(Exception):
    """The time that a row may take is over."""


@dataclass(slots=True)
class Slot:
    """A place under way.

    Attributes:
        began: when it was given.
        number: tells requests apart; another try of one has the same.
        held: what it may take; ``None`` once that is settled.
    """

    began: float
    number: int
    held: Held | None


def _wait(changed: threading.Condition, seconds: float) -> None:
    changed.wait(seconds)


class Limits:
    """What all requests of a run share; safe from any thread."""

    def __init__(
        self,
        *,
        max_in_flight: int,
        policy: RetryPolicy | None = None,
        allowance: Allowance | None = None,
        patience_s: float | None = PATIENCE_S,
        on_note: Callable[[str], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
        wait: Callable[[threading.Condition, float], object] = _wait,
    ) -> None:
        """Begin with nothing under way.

        Args:
            max_in_flight: requests under way at most.
            policy: when a request is sent again.
            allowance: what may be sent in a minute, and spent.
            patience_s: how long a server that goes down is waited for, if at all.
            on_note: told, from any thread, when all wait, and for what.
            clock: seconds that only go up.
            chance: numbers from 0 to 1.
            wait: waits for a condition, so many seconds at most.
        """
        self.policy = policy or RetryPolicy()
        self.allowance = allowance or Allowance()
        self.clock = clock
        self.chance = chance
        self.on_note = on_note
        self._wait_for = wait
        self._numbers = itertools.count()
        # All below is written under the lock only. Each that waits for a place has a
        # condition of its own, and only the first in the queue looks at the clock.
        self._lock = threading.Lock()
        self._time = threading.Condition(self._lock)
        self._queue: deque[threading.Condition] = deque()
        self._failure: SglrunError | None = None
        self._draining = False
        self._window = Window(max_in_flight)
        self._breaker = Breaker(patience_s)
        self._pause = Pause()
        self._answered_at = float("-inf")

    @property
    def failure(self) -> SglrunError | None:
        """Why no request may be sent any more."""
        return self._failure

    @property
    def in_flight(self) -> int:
        """Requests under way."""
        return self._window.in_flight

    @property
    def allowed(self) -> int:
        """Requests that may be under way now."""
        return self._window.allowed

    @property
    def waiting(self) -> str:
        """What all wait for, in words; empty if they do not."""
        now, breaker = self.clock(), self._breaker
        if breaker.noticed:
            return waiting_for(breaker.since - now, breaker.until - now)
        return slowed_down(self._pause.wait_s(now)) if self._pause.is_long(now) else ""

    def next_number(self) -> int:
        """Return a number for a request that no other has."""
        return next(self._numbers)

    def fail(self, error: SglrunError) -> None:
        """Let no request go on: all that wait raise *error*, and all that come."""
        with self._lock:
            self._fail(error)

    def drain(self) -> None:
        """End the waits for another try; their requests fail as they last did."""
        with self._lock:
            self._draining = True
            self._time.notify_all()
            self._wake()

    @contextmanager
    def slot(
        self,
        deadline: float | None = None,
        *,
        number: int = -1,
        need: Need = ONE_REQUEST,
    ) -> Iterator[Slot]:
        """Hold one of the places under way; waits for it, and while nobody may go.

        Args:
            deadline: until when it may wait, by the clock.
            number: of the request, from ``next_number``.
            need: what the request may take.

        Raises:
            SglrunError: as ``fail`` was given.
            DeadlineError: *deadline* has passed.
        """
        with self._lock:
            self._queue_up(need, deadline)
            now = self.clock()
            slot = Slot(now, number, self.allowance.hold(need, now))
            self._window.in_flight += 1
            self._breaker.begin(number)
        try:
            yield slot
        finally:
            with self._lock:
                self._window.in_flight -= 1
                self._breaker.end(number)
                self._settle(slot, None)
                self._wake()

    def sleep(self, seconds: float, deadline: float | None = None) -> bool:
        """Wait *seconds*; return whether another try may be made after it.

        Raises:
            SglrunError: as ``fail`` was given.
            DeadlineError: *deadline* has passed.
        """
        until = self.clock() + seconds

        def left_s() -> float:
            return 0.0 if self._draining else until - self.clock()

        with self._lock:
            self._wait(self._time, left_s, deadline)
            return not self._draining

    def answered(self, slot: Slot, usage: Usage, pause_s: float = 0.0) -> None:
        """Note an answer in *slot*: a little more may be under way.

        Args:
            slot: where the request is.
            usage: what it cost.
            pause_s: how long the server wants no other request.
        """
        note = ""
        with self._lock:
            self._answered_at = self.clock()
            self._window.grow()
            told = usage.prompt_tokens or usage.completion_tokens
            self._settle(slot, usage if told else None)
            is_back = self._breaker.answered()
            if pause_s > 0:
                note = self._pause.used_up(pause_s, self.clock(), slot.began)
            self._wake()
        self._say("the server is back" if is_back else "", note)

    def is_in_doubt(self, slot: Slot, error: BackendError) -> bool:
        """Return whether *error* may be the server's fault or the request's own."""
        with self._lock:
            return self._breaker.is_in_doubt(error, slot.number)

    def failed(self, slot: Slot, error: BackendError, *, alive: bool = False) -> bool:
        """Note that the request in *slot* failed, of a server that is *alive* or not.

        Returns:
            Whether that says only that the server is down, nothing of the request,
            which then waits in ``slot`` for the server to be back.
        """
        note = ""
        with self._lock:
            now = self.clock()
            if not may_have_cost(error):
                self._settle(slot, Usage())
            if isinstance(error, RateLimitError) and error.retryable:
                self._window.cut(slot.began, now)
                note = self._pause.ask(error.retry_after_s or 0.0, now)
            breaker, knew = self._breaker, self._breaker.noticed
            is_down = breaker.failed(error, slot.number, now, alive=alive)
            since_s, left_s = now - breaker.since, breaker.until - now
            if is_down and left_s <= 0:
                self._fail(_stopped(gone(since_s, error), error))
            elif breaker.noticed and not knew:
                note = down(since_s, left_s, error)
            self._wake()
        self._say(note)
        return is_down

    def gave_up(self, since: float, error: BackendError) -> None:
        """Note that *error* was met over and over; end the run if nobody had luck.

        Args:
            since: when it was first met.
            error: how it was last met.
        """
        if not isinstance(error, RateLimitError) or self._answered_at >= since:
            return
        told = shut_out(self.clock() - since, error.retry_after_s, error)
        self.fail(_stopped(told, error))

    def _fail(self, error: SglrunError) -> None:
        self._failure = self._failure or error
        self._time.notify_all()
        for turn in self._queue:
            turn.notify()

    def _settle(self, slot: Slot, usage: Usage | None) -> None:
        held, slot.held = slot.held, None
        if held is not None:
            self.allowance.settle(held, usage, self.clock())

    def _say(self, *notes: str) -> None:
        """Tell *notes*; not under the lock, as a display may ask what is waited for."""
        for note in filter(None, notes):
            self.on_note(note)

    def _wake(self) -> None:
        if self._queue:
            self._queue[0].notify()

    def _queue_up(self, need: Need, deadline: float | None) -> None:
        """Wait until the request may go, behind those that came before."""
        if not self._queue and self._may_begin(need, deadline):
            return
        turn = threading.Condition(self._lock)
        self._queue.append(turn)

        def blocked_s() -> float:
            if self._queue[0] is not turn:
                return float("inf")
            return self._blocked_s(need)

        try:
            self._wait(turn, blocked_s, deadline)
        except RunStoppedError as exc:
            self._fail(exc)
            raise
        finally:
            self._queue.remove(turn)
            self._wake()

    def _may_begin(self, need: Need, deadline: float | None) -> bool:
        """Return whether the request need not wait, as nearly always."""
        if self._failure is not None or deadline is not None or self.allowance.counts:
            return False
        return self._blocked_s(need) <= 0

    def _blocked_s(self, need: Need) -> float:
        """Return how long the next request must wait at least; 0 if it may begin.

        Raises:
            SglrunError: it can never begin.
        """
        now, breaker = self.clock(), self._breaker
        if self._draining and breaker.error is not None:
            raise breaker.error
        if self._window.is_full:
            return float("inf")
        return max(
            breaker.wait_s(now),
            self._pause.wait_s(now),
            self.allowance.wait_s(need, now),
        )

    def _wait(
        self,
        changed: threading.Condition,
        blocked_for: Callable[[], float],
        deadline: float | None,
    ) -> None:
        while True:
            if self._failure is not None:
                raise self._failure
            if deadline is not None and self.clock() >= deadline:
                raise DeadlineError
            blocked_s = blocked_for()
            if blocked_s <= 0:
                return
            if deadline is not None:
                blocked_s = min(blocked_s, deadline - self.clock())
            self._wait_for(changed, min(blocked_s, threading.TIMEOUT_MAX))


def _stopped(told: str, error: BackendError) -> RunStoppedError:
    stopped = RunStoppedError(told)
    stopped.__cause__ = error
    return stopped
