"""The observer: who is told of what a program does, before it is done."""

from collections.abc import Callable, Iterable
from typing import Protocol

from sglrun.interpreter.evaluator import Evaluator, Name
from sglrun.lang import ir


class Observed(Protocol):
    """An executor, as far as an observer may look."""

    @property
    def evaluator(self) -> Evaluator:
        """The prompt and the variables."""
        ...


class Observer:
    """Told of what a program does, in its thread; what it raises ends the program."""

    def began(self, executor: Observed, name: str) -> None:
        """Take note that the body of the program *name* begins."""

    def left(self, executor: Observed) -> None:
        """Take note that the body has ended."""

    def executing(
        self, executor: Observed, piece: ir.Piece, where: str | None
    ) -> ir.Piece:
        """Return what to execute for *piece*, which the author's line *where* adds."""
        del executor, where
        return piece

    def forked(self, executor: Observed, children: Iterable[Observed]) -> None:
        """Take note that *children* go on from *executor*."""

    def joining(
        self,
        executor: Observed,
        children: Iterable[Observed],
        mode: str,
    ) -> None:
        """Take note that *children* are about to be brought back."""

    def writing(self, executor: Observed, name: Name, value: object) -> None:
        """Take note that the author assigns a variable."""

    def following(self, func: Callable[..., object]) -> Callable[..., object]:
        """Return what to call for the author's function *func*."""
        return func

    def reading(self, value: object) -> object:
        """Return the *value* of a variable as the author is to see it."""
        return value
