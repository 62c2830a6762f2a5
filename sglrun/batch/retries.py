"""The retries: whether one request is sent again, and after which wait."""

from collections.abc import Callable
from dataclasses import dataclass

from sglrun.errors import BackendError, RateLimitError

_SPREAD = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """When a request that failed is sent again.

    Attributes:
        retries: further tries; waiting because the server asks to is not counted.
        first_backoff_s: the longest wait before the second try; it doubles from try to
            try, and the wait is drawn from nothing to it.
        longest_backoff_s: where it doubles no more.
        longest_hint_s: a server that asks for a longer wait is asked again sooner.
        after_long_hint_s: so soon.
        longest_throttled_s: how long one request may wait because the server asks to.
    """

    retries: int = 4
    first_backoff_s: float = 0.5
    longest_backoff_s: float = 30.0
    longest_hint_s: float = 300.0
    after_long_hint_s: float = 60.0
    longest_throttled_s: float = 600.0

    def backoff_s(self, attempts: int, chance: float) -> float:
        """Return the wait after *attempts* tries, for a *chance* from 0 to 1."""
        doubled = self.first_backoff_s * 2.0 ** min(attempts - 1, 32)
        return chance * min(doubled, self.longest_backoff_s)

    def hint_s(self, asked_s: float) -> float:
        """Return how long to wait where the server asks for *asked_s*."""
        believed = asked_s <= self.longest_hint_s
        return asked_s if believed else self.after_long_hint_s


class Retries:
    """The tries of one request: whether there is another, and after which wait."""

    def __init__(self, policy: RetryPolicy, chance: Callable[[], float]) -> None:
        """Begin before the first try; *chance* gives numbers from 0 to 1."""
        self._policy = policy
        self._chance = chance
        self._counted = 0
        self._throttles = 0
        self._throttled_s = 0.0

    def wait_s(self, error: BackendError) -> float | None:
        """Return how long to wait after *error*; ``None`` if there is no other try."""
        policy = self._policy
        if not error.retryable:
            return None
        chance = self._chance()
        if isinstance(error, RateLimitError):
            self._throttles += 1
            wait_s = (
                policy.backoff_s(self._throttles, chance)
                if error.retry_after_s is None
                else policy.hint_s(error.retry_after_s) * (1 + _SPREAD * chance)
            )
            self._throttled_s += wait_s
            return wait_s if self._throttled_s <= policy.longest_throttled_s else None
        self._counted += 1
        if self._counted > policy.retries:
            return None
        hint_s = policy.hint_s(error.retry_after_s or 0.0)
        return max(policy.backoff_s(self._counted, chance), hint_s)
