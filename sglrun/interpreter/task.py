"""A task: something to execute, and the futures of what it assigns."""

from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One thing that an executor is to do.

    Attributes:
        execute: does it; returns a value for each of ``results``.
        results: the futures that readers wait for.
        variable: the first variable that it assigns, if any.
        where: the author's line, as ``prog.py:12``.
    """

    execute: Callable[[], tuple[object, ...]]
    results: tuple[Future[object], ...] = ()
    variable: str | None = None
    where: str | None = None

    def complete(self, values: tuple[object, ...]) -> None:
        """Hand *values* to who waits."""
        for result, value in zip(self.results, values, strict=True):
            with suppress(InvalidStateError):  # the program failed meanwhile
                result.set_result(value)

    def fail(self, cause: BaseException) -> None:
        """Hand *cause* to who waits."""
        for result in self.results:
            with suppress(InvalidStateError):
                result.set_exception(cause)
