"""The allowance: what a run may send in a minute, and what it may spend in all."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sglrun.backends.base import Usage
from sglrun.batch.budget import Budget, cost_budget, token_budget
from sglrun.batch.needs import Need
from sglrun.batch.prices import Prices
from sglrun.batch.rates import Rate, Sent
from sglrun.errors import (
    BackendError,
    BackendUnreachableError,
    BadRequestError,
    ConfigError,
    UnsupportedFeatureError,
)

# A model did nothing for an answer like this.
_REFUSED = (*(code for code in range(400, 500) if code != 408), 500, 501, 503, 529)  # noqa: PLR2004 - a timeout


def may_have_cost(error: BackendError) -> bool:
    """Return whether a model may have worked for a request that failed."""
    if isinstance(error, BackendUnreachableError | UnsupportedFeatureError):
        return False  # it was not sent
    if isinstance(error, BadRequestError) and error.http_status is None:
        return False  # no server refused it, so it was refused before
    return error.http_status not in _REFUSED


@dataclass(frozen=True, slots=True)
class Held:
    """What one request was given.

    Attributes:
        need: what it may take.
        sent: what the rates noted.
    """

    need: Need
    sent: Sequence[Sent]


class Allowance:
    """Rates and budgets; whoever calls sees to it that one thread does at a time.

    Attributes:
        counts: something is limited at all.
        counts_tokens: the tokens of a request must be known before it is sent.
        unknown: what requests may have cost that no answer told.
    """

    def __init__(
        self,
        *,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        budgets: Sequence[Budget] = (),
    ) -> None:
        """Limit what is given; the rest is not limited."""
        self.counts_tokens = tokens_per_minute is not None or bool(budgets)
        self.counts = self.counts_tokens or requests_per_minute is not None
        self.unknown = Usage()
        self._budgets = budgets
        self._rates: list[tuple[Rate, _Measure]] = []
        if requests_per_minute is not None:
            self._rates.append((Rate(requests_per_minute), _REQUESTS))
        if tokens_per_minute is not None:
            self._rates.append((Rate(tokens_per_minute), _TOKENS))

    def wait_s(self, need: Need, now: float) -> float:
        """Return how long a request must wait; infinite while others hold too much.

        Raises:
            RunStoppedError: it never fits.
        """
        if not self.counts:
            return 0.0
        waits = [rate.wait_s(of.need(need), now) for rate, of in self._rates]
        waits += [budget.wait_s(need.most) for budget in self._budgets]
        return max(waits, default=0.0)

    def hold(self, need: Need, now: float) -> Held:
        """Give a request what it may take."""
        if not self.counts:
            return Held(need, ())
        for budget in self._budgets:
            budget.hold(need.most)
        return Held(need, [rate.send(of.need(need), now) for rate, of in self._rates])

    def settle(self, held: Held, usage: Usage | None, now: float) -> None:
        """Take back what a request did not take.

        Args:
            held: what it was given.
            usage: what it took; ``None`` if nobody knows, so that it keeps all.
            now: the time.
        """
        if usage is None:
            self.unknown += held.need.most
        if not self.counts:
            return
        for budget in self._budgets:
            budget.settle(held.need.most, usage)
        if usage is not None:
            for (rate, of), sent in zip(self._rates, held.sent, strict=True):
                rate.correct(sent, of.usage(usage), now)


def create_allowance(
    *,
    requests_per_minute: float | None,
    tokens_per_minute: float | None,
    max_total_tokens: int | None,
    max_cost: float | None,
    prices: Prices | None,
    spent: Usage,
) -> Allowance:
    """Return what a run may send and spend, of whose budgets *spent* is gone.

    Raises:
        ConfigError: what costs no known price has a limit.
    """
    budgets = []
    if max_total_tokens is not None:
        budgets.append(token_budget(max_total_tokens))
    if max_cost is not None:
        if prices is None:
            raise ConfigError("a limit on the cost wants prices")
        budgets.append(cost_budget(max_cost, prices))
    for budget in budgets:
        budget.spend(spent)
    return Allowance(
        requests_per_minute=requests_per_minute,
        tokens_per_minute=tokens_per_minute,
        budgets=budgets,
    )


@dataclass(frozen=True, slots=True)
class _Measure:
    need: Callable[[Need], float]
    usage: Callable[[Usage], float]


# A request that was refused was sent all the same.
_REQUESTS = _Measure(
    lambda need: need.most.requests, lambda usage: max(usage.requests, 1)
)
_TOKENS = _Measure(
    lambda need: need.tokens,
    lambda usage: usage.prompt_tokens + usage.completion_tokens,
)
