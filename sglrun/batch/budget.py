"""A budget: what a run may spend, held back before a request and settled after it."""

from collections.abc import Callable

from sglrun.backends.base import Usage
from sglrun.batch.prices import Prices
from sglrun.errors import RunStoppedError


class Budget:
    """So much to spend; whoever calls sees to it that one thread does at a time.

    What a request may cost at most is held back while it is under way. So what is
    spent never passes the limit, however many requests there are at once.

    Attributes:
        spent: what is gone.
    """

    def __init__(
        self,
        limit: float,
        *,
        cost: Callable[[Usage], float],
        most: Callable[[Usage], float],
        words: str,
    ) -> None:
        """Begin with nothing spent.

        Args:
            limit: what may be spent.
            cost: what a usage costs.
            most: what a usage costs at most, of which nothing is known but its size.
            words: what it is, with the option that sets it.
        """
        self.spent = 0.0
        self._limit = limit
        self._cost = cost
        self._most = most
        self._words = words
        self._held = 0.0
        self._holders = 0

    def wait_s(self, most: Usage) -> float:
        """Return 0 if a request for *most* fits; infinity if it may fit later.

        Raises:
            RunStoppedError: it never will.
        """
        amount = self._most(most)
        if self.spent + self._held + amount <= self._limit:
            return 0.0
        if self._holders:
            return float("inf")
        raise RunStoppedError(
            f"the budget ends here: of {self._limit:,.10g} {self._words} "
            f"{self.spent:,.10g} is spent, and the next request may take "
            f"{amount:,.10g}; with more the same command goes on"
        )

    def hold(self, most: Usage) -> None:
        """Hold back what a request for *most* may cost."""
        self._held += self._most(most)
        self._holders += 1

    def settle(self, most: Usage, usage: Usage | None) -> None:
        """Let go of what was held for *most*, and spend what *usage* cost.

        Args:
            most: as it was given to ``hold``.
            usage: what was used; ``None`` if nobody knows, so that all is spent.
        """
        self._holders -= 1
        self._held = self._held - self._most(most) if self._holders else 0.0
        self.spent += self._most(most) if usage is None else self._cost(usage)

    def spend(self, usage: Usage) -> None:
        """Spend what *usage* cost."""
        self.spent += self._cost(usage)


def token_budget(limit: int) -> Budget:
    """Return the budget of ``--max-total-tokens``."""
    words = "tokens (--max-total-tokens)"
    return Budget(limit, cost=_tokens, most=_tokens, words=words)


def cost_budget(limit: float, prices: Prices) -> Budget:
    """Return the budget of ``--max-cost``."""
    words = "(--max-cost)"
    return Budget(limit, cost=prices.cost, most=prices.most, words=words)


def _tokens(usage: Usage) -> float:
    return usage.prompt_tokens + usage.completion_tokens
