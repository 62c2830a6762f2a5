"""Limits: how many requests are under way, when they wait, and when none may go on.

Rule: the only module that waits by the clock before it asks a backend again.
"""

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sglrun.errors import BackendError, RateLimitError, SglrunError

_LONGEST_PAUSE_S = 60.0
_SPREAD = 0.1


class DeadlineError(Exception):
    """The time that a row may take is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """When a request that failed is sent again.

    Attributes:
        retries: further tries; waiting because the server asks to is not counted.
        first_backoff_s: the longest wait before the second try; it doubles from try to
            try, and the wait is drawn from nothing to it.
        longest_backoff_s: where it doubles no more.
        longest_throttled_s: how long one request may wait because the server asks to.
    """

    retries: int = 4
    first_backoff_s: float = 0.5
    longest_backoff_s: float = 30.0
    longest_throttled_s: float = 300.0

    def backoff_s(self, attempts: int, chance: float) -> float:
        """Return the wait after *attempts* tries, for a *chance* from 0 to 1."""
        doubled = self.first_backoff_s * 2.0 ** min(attempts - 1, 32)
        return chance * min(doubled, self.longest_backoff_s)


def _wait(changed: threading.Condition, seconds: float) -> None:
    changed.wait(seconds)


class Limits:
    """What all requests of a run share; safe from any thread.

    The number of requests under way is halved when the server asks to slow down, once
    for each burst, and grows again with every answer.
    """

    def __init__(
        self,
        *,
        max_in_flight: int,
        policy: RetryPolicy | None = None,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
        wait: Callable[[threading.Condition, float], object] = _wait,
    ) -> None:
        """Begin with nothing under way.

        Args:
            max_in_flight: requests under way at most.
            policy: when a request is sent again.
            clock: seconds that only go up.
            chance: numbers from 0 to 1.
            wait: waits for a condition, so many seconds at most.
        """
        if max_in_flight < 1:
            raise ValueError(f"max_in_flight must be at least 1, not {max_in_flight}")
        self.policy = policy or RetryPolicy()
        self.clock = clock
        self.chance = chance
        self._wait_for = wait
        self._max_in_flight = max_in_flight
        # All below is written under the lock only. Who waits for a place and who waits
        # for the time of another try wait apart: a place that is free wakes one.
        lock = threading.Lock()
        self._place = threading.Condition(lock)
        self._time = threading.Condition(lock)
        self._failure: SglrunError | None = None
        self._draining = False
        self._in_flight = 0
        self._allowed = float(max_in_flight)
        self._paused_until = 0.0
        self._cut_at = float("-inf")

    @property
    def failure(self) -> SglrunError | None:
        """Why no request may be sent any more."""
        return self._failure

    @property
    def in_flight(self) -> int:
        """Requests under way."""
        return self._in_flight

    @property
    def allowed(self) -> int:
        """Requests that may be under way now."""
        return int(self._allowed)

    def fail(self, error: SglrunError) -> None:
        """Let no request go on: all that wait raise *error*, and all that come."""
        with self._time:
            self._failure = self._failure or error
            self._time.notify_all()
            self._place.notify_all()

    def drain(self) -> None:
        """End the waits for another try; their requests fail as they last did."""
        with self._time:
            self._draining = True
            self._time.notify_all()

    @contextmanager
    def slot(self, deadline: float | None = None) -> Iterator[float]:
        """Hold one of the places under way; waits for it, and while paused.

        Yields:
            When it began.

        Raises:
            SglrunError: as ``fail`` was given.
            DeadlineError: *deadline* has passed.
        """
        with self._place:
            try:
                self._wait(self._place, self._blocked_for, deadline)
            except BaseException:
                self._place.notify()  # it may have been woken for a free place
                raise
            self._in_flight += 1
            began = self.clock()
        try:
            yield began
        finally:
            with self._place:
                self._in_flight -= 1
                self._place.notify()

    def sleep(self, seconds: float, deadline: float | None = None) -> bool:
        """Wait *seconds*; return whether another try may be made after it.

        Raises:
            SglrunError: as ``fail`` was given.
            DeadlineError: *deadline* has passed.
        """
        until = self.clock() + seconds

        def left_s() -> float:
            return 0.0 if self._draining else until - self.clock()

        with self._time:
            self._wait(self._time, left_s, deadline)
            return not self._draining

    def answered(self) -> None:
        """Note an answer: a little more may be under way."""
        if self._allowed >= self._max_in_flight:
            return
        with self._place:
            grown = self._allowed + 1.0 / self._allowed
            self._allowed = min(grown, float(self._max_in_flight))
            self._place.notify()

    def throttled(self, began: float, hint_s: float | None) -> None:
        """Note that the server asks to slow down.

        Args:
            began: when the request began; one of a burst that is known changes nothing.
            hint_s: how long the server asks all to wait, in seconds.
        """
        with self._place:
            now = self.clock()
            if hint_s is not None:
                until = now + min(hint_s, _LONGEST_PAUSE_S)
                self._paused_until = max(self._paused_until, until)
            if began > self._cut_at:
                self._allowed = max(1.0, self._allowed / 2)
                self._cut_at = now

    def _blocked_for(self) -> float:
        """Return how long the next request must wait at least; 0 if it may begin."""
        if self._in_flight >= int(self._allowed):
            return float("inf")
        return max(0.0, self._paused_until - self.clock())

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


class Retries:
    """The tries of one request: whether there is another, and after which wait."""

    def __init__(self, limits: Limits) -> None:
        """Begin before the first try."""
        self._limits = limits
        self._counted = 0
        self._throttles = 0
        self._throttled_s = 0.0

    def wait_s(self, error: BackendError) -> float | None:
        """Return how long to wait after *error*; ``None`` if there is no other try."""
        policy = self._limits.policy
        if not error.retryable:
            return None
        chance = self._limits.chance()
        if isinstance(error, RateLimitError):
            self._throttles += 1
            wait_s = (
                policy.backoff_s(self._throttles, chance)
                if error.retry_after_s is None
                else error.retry_after_s * (1 + _SPREAD * chance)
            )
            self._throttled_s += wait_s
            return wait_s if self._throttled_s <= policy.longest_throttled_s else None
        self._counted += 1
        if self._counted > policy.retries:
            return None
        backoff_s = policy.backoff_s(self._counted, chance)
        return max(backoff_s, error.retry_after_s or 0.0)
