"""A budget; that it is never passed is tested with the limits."""

import pytest

from sglrun.backends.base import Usage
from sglrun.batch.budget import cost_budget, token_budget
from sglrun.batch.prices import Prices
from sglrun.errors import RunStoppedError

TEN = Usage(prompt_tokens=6, completion_tokens=4)


def test_what_is_held_back_counts_until_it_is_settled() -> None:
    """A request waits while those under way may take what is left."""
    budget = token_budget(19)
    budget.hold(TEN)

    assert budget.wait_s(TEN) == float("inf")

    budget.settle(TEN, Usage(prompt_tokens=6, completion_tokens=1))

    assert budget.spent == 7
    assert budget.wait_s(TEN) == 0


def test_what_nobody_knows_is_spent() -> None:
    """A request whose cost was never told has cost its most."""
    budget = token_budget(100)
    budget.hold(TEN)
    budget.settle(TEN, None)

    assert budget.spent == 10


def test_the_end_names_the_option_and_the_figures() -> None:
    """A budget that holds no other request says what is spent and what is missing."""
    budget = token_budget(1500)
    budget.spend(Usage(prompt_tokens=1495))
    with pytest.raises(RunStoppedError) as caught:
        budget.wait_s(TEN)

    assert str(caught.value) == (
        "the budget ends here: of 1,500 tokens (--max-total-tokens) 1,495 is spent, "
        "and the next request may take 10; with more the same command goes on"
    )


def test_money_is_held_back_at_the_dearest_price() -> None:
    """What may be cached is held back as if it were not, and paid as it was."""
    budget = cost_budget(0.01, Prices(prompt=1000, completion=1000, cached=0))
    budget.hold(TEN)

    assert budget.wait_s(Usage(prompt_tokens=1)) == float("inf")

    budget.settle(TEN, Usage(prompt_tokens=6, cached_tokens=6))

    assert budget.spent == 0.0
