"""A follower: who does what rewritten code says, as its helpers see it."""

from collections.abc import Callable
from typing import Any, Protocol

from sglrun.interpreter.tracing.value import Value


class Follower(Protocol):
    """Does to values what rewritten code says; some of them are not known."""

    def text(self, *parts: str) -> str:
        """Return *parts* as one text."""
        ...

    def formatted(self, value: Any, conversion: str | None, spec: str = "") -> str:
        """Return *value* as a part of a text."""
        ...

    def spelled(self, how: Callable[[Any], str], value: Any) -> str:
        """Return *value* as *how*, one of ``str``, ``repr`` and ``ascii``, has it."""
        ...

    def seen(self, value: Any) -> Any:
        """Return *value*, of which something is asked that cannot be followed."""
        ...

    def ask(self, question: str, value: Value, *, usual: bool | None = None) -> bool:
        """Ask a question about *value*."""
        ...

    def first(self, given: object) -> Value | None:
        """Return the first value in *given* that is not known."""
        ...

    def give(self, func: Any, value: Value) -> Any:
        """Return what *func*, which is not called, would give for *value*."""
        ...
