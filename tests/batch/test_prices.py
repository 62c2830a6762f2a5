"""Prices."""

from sglrun.backends.base import Usage
from sglrun.batch.prices import Prices

USAGE = Usage(prompt_tokens=3_000_000, cached_tokens=1_000_000)


def test_cost_counts_cached_tokens_at_their_price() -> None:
    """Cached tokens cost their own price, or a prompt's where none is said."""
    assert Prices(prompt=2, completion=1, cached=0.5).cost(USAGE) == 4.5
    assert Prices(prompt=2, completion=1).cost(USAGE) == 6


def test_the_most_takes_the_dearest_way() -> None:
    """What may be cached counts at the dearer of both prices."""
    assert Prices(prompt=2, completion=1, cached=0.5).most(USAGE) == 6
    assert Prices(prompt=2, completion=1, cached=3).most(USAGE) == 9
