"""A rate: how much may be sent in a minute, whoever sends it.

Providers count in windows of their own, often shorter than a minute. So what is sent is
spread: it keeps the pace of the rate, a second's worth may go at once, and in no 60
seconds more goes than the rate allows.
"""

from collections import deque
from dataclasses import dataclass

_WINDOW_S = 60.0
_AT_ONCE_S = 1.0


@dataclass(slots=True)
class Sent:
    """Something that was sent.

    Attributes:
        at: when.
        amount: how much it counts; corrected when it is known.
    """

    at: float
    amount: float


class Rate:
    """So much in a minute; whoever calls sees to it that one thread does at a time.

    Attributes:
        per_minute: how much may be sent in any 60 seconds.
    """

    def __init__(self, per_minute: float) -> None:
        """Allow *per_minute*, from now on."""
        self.per_minute = per_minute
        self._sent: deque[Sent] = deque()
        self._total = 0.0  # of what was sent in the last minute
        self._paced_until = float("-inf")  # when a steady sender is done with all that

    def wait_s(self, amount: float, now: float) -> float:
        """Return how long *amount* must wait at least; 0 if it may go."""
        self._forget(now)
        over = self._total + self._bounded(amount) - self.per_minute
        until = self._paced_until - _AT_ONCE_S
        for sent in self._sent:
            if over <= 0:
                break
            over -= sent.amount
            until = max(until, sent.at + _WINDOW_S)
        return max(0.0, until - now)

    def send(self, amount: float, now: float) -> Sent:
        """Note that *amount* is sent now."""
        sent = Sent(now, self._bounded(amount))
        self._sent.append(sent)
        self._total += sent.amount
        self._paced_until = max(self._paced_until, now) + self._takes_s(sent.amount)
        return sent

    def correct(self, sent: Sent, amount: float, now: float) -> None:
        """Let *sent* count *amount*, which it turned out to be."""
        self._forget(now)
        more = self._bounded(amount) - sent.amount
        self._paced_until += self._takes_s(more)
        sent.amount += more
        if self._sent and sent.at >= self._sent[0].at:
            self._total += more

    def _bounded(self, amount: float) -> float:
        """Return *amount*, or a whole minute's: more than that goes alone."""
        return min(amount, self.per_minute)

    def _takes_s(self, amount: float) -> float:
        return amount * _WINDOW_S / self.per_minute

    def _forget(self, now: float) -> None:
        while self._sent and self._sent[0].at + _WINDOW_S <= now:
            self._total -= self._sent.popleft().amount
        if not self._sent:
            self._total = 0.0  # sums of fractions are not exact
