"""Backends that stand before another one."""

from collections.abc import Callable
from inspect import signature
from typing import Any

import pytest

from sglrun.backends.base import Backend
from sglrun.backends.mock import MockBackend
from sglrun.backends.passing import PassingBackend
from sglrun.backends.several import SeveralServers
from sglrun.batch.limited import LimitedBackend
from sglrun.batch.limits import Limits
from sglrun.batch.meter import Meter
from sglrun.interpreter.compiling.shared_samples import SharedSamples
from sglrun.interpreter.speculation import SpeculatingBackend
from sglrun.lang.prompt import Prompt

MAKERS: dict[str, Callable[[Backend], Backend]] = {
    "passing": PassingBackend,
    "limited": lambda behind: LimitedBackend(behind, Limits(max_in_flight=1), Meter()),
    "speculating": lambda behind: SpeculatingBackend(behind, 8),
    "shared samples": SharedSamples,
    "of a row": lambda behind: SeveralServers({"http://one": behind}).of_row(),
}

# Said of the wrapper itself, or its own work.
OWN = {"of_row", "close", "generate", "select", "cache_prefix"}
ASKED = [
    name
    for name, member in vars(Backend).items()
    if callable(member) and not name.startswith("_") and name not in OWN
]
FACTS = ["kind", "server", "model", "chat_template", "capabilities", "secrets"]


@pytest.mark.parametrize("maker", MAKERS)
def test_it_says_what_the_backend_behind_it_says(maker: str) -> None:
    """Model, powers and secrets are those of the backend behind it."""
    behind = MockBackend()
    behind.server, behind.secrets = "a server", frozenset({"a key of some length"})
    before = MAKERS[maker](behind)

    assert [getattr(before, fact) for fact in FACTS] == [
        getattr(behind, fact) for fact in FACTS
    ]


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("name", ASKED)
def test_it_passes_on_what_it_does_not_do_itself(maker: str, name: str) -> None:
    """No method falls back to what the protocol has by default."""
    asked: list[Any] = []

    def note(*given: object) -> int:
        asked.append(given)
        return 0

    behind = MockBackend()
    setattr(behind, name, note)
    given = [object()] * (len(signature(getattr(Backend, name)).parameters) - 1)

    getattr(MAKERS[maker](behind), name)(*given)

    assert asked == [tuple(given)]


@pytest.mark.parametrize("maker", MAKERS)
def test_it_passes_on_what_is_known_of_a_prefix(maker: str) -> None:
    """Whether nothing is generated after it reaches the backend behind."""
    behind = MockBackend()
    before = MAKERS[maker](behind)
    before.cache_prefix(Prompt(text="a"), only_scored=True)
    before.cache_prefix(Prompt(text="b"))

    assert (behind.prefixes, behind.scored_prefixes) == (["a", "b"], ["a"])
