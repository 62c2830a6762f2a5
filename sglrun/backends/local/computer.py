"""What computes the steps that the scheduler plans: a context, as that sees it."""

from typing import Protocol

from sglrun.backends.local.attention import Attention
from sglrun.backends.local.cache import Cells
from sglrun.backends.local.context import Logits
from sglrun.backends.local.context_settings import ContextSettings
from sglrun.backends.local.joining import Joiner
from sglrun.backends.local.step import Entry


class Computer(Cells, Joiner, Protocol):
    """What the scheduler needs of a context."""

    settings: ContextSettings
    attention: Attention

    def decode(self, entries: list[Entry]) -> int:
        """Compute a step; 0, or ``CACHE_FULL`` with nothing changed."""
        ...

    def logits(self, index: int) -> Logits:
        """Return the logits of entry *index* of the last step."""
        ...
