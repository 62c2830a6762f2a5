"""Helpers: functions of the author's that are left where they go by what is not known.

What such a function would return is then unknown, and the program goes on. That is so
only where it has said nothing, and changes nothing but what it makes itself.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

UNDECIDED: Any = object()
"""What a helper returns that was left."""


class UndecidedError(BaseException):
    """A helper is left; no ``except Exception`` of the author's may hide that."""


@dataclass(slots=True)
class _Helper:
    """A function that is running.

    Attributes:
        steps: how many steps were traced when it began; -1 if it must not be left.
        is_left: it went by a value that is not known.
    """

    steps: int
    is_left: bool = False


class Helpers:
    """The functions of the author's that are running, in the trace's thread."""

    def __init__(self) -> None:
        """Begin with none."""
        self._running: list[_Helper] = []

    def run(self, call: Callable[[], Any], steps: int | None) -> Any:
        """Return what *call* returns, or ``UNDECIDED``.

        Args:
            call: calls the function.
            steps: how many steps were traced; ``None`` if it must not be left.
        """
        helper = _Helper(-1 if steps is None else steps)
        self._running.append(helper)
        try:
            result = call()
        except UndecidedError:
            if not helper.is_left:
                raise
            return UNDECIDED
        finally:
            self._running.pop()
        return UNDECIDED if helper.is_left else result

    def leave(self, steps: int) -> None:
        """Leave the helper that is running, where it has said nothing.

        Raises:
            UndecidedError: it is left.
        """
        if self._running and self._running[-1].steps == steps:
            self._running[-1].is_left = True
            raise UndecidedError
