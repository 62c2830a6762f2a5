"""A value that is not known before the run: where it comes from, what is made of it."""

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

from sglrun.errors import ProgramError

Constant = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Step:
    """Something done to a value, with constants: ``Step("strip")`` is ``.strip()``."""

    name: str
    args: tuple[object, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """An argument or a variable, and the steps from it.

    Attributes:
        source: what it is.
        name: its name.
        node: the generation in the graph that a variable comes from.
        steps: what is done to it, in order.
        exact: the steps say all that is done; otherwise they only describe it.
    """

    source: Literal["argument", "variable"]
    name: str | None
    node: int = -1
    steps: tuple[Step, ...] = ()
    exact: bool = True

    def __str__(self) -> str:
        """Return its origin in words."""
        if self.name is None and self.node < 0:
            return "an unknown value"
        return f"{self.source} {self.name!r}"

    def then(self, name: str, *args: object) -> Self:
        """Return what *name* with *args*, constants or values, makes of it."""
        plain = [is_constant(arg) or isinstance(arg, Value) for arg in args]
        inner = [arg.exact for arg in args if isinstance(arg, Value)]
        exact = self.exact and all((*plain, *inner))
        kept = tuple(
            arg if known else "…" for arg, known in zip(args, plain, strict=True)
        )
        return replace(self, steps=(*self.steps, Step(name, kept)), exact=exact)

    def inexact(self) -> Self:
        """Return the value with steps that are not all known."""
        return replace(self, exact=False)

    def parts(self) -> Iterator["Value"]:
        """Iterate over the value and those that its steps take."""
        yield self
        for step in self.steps:
            for arg in step.args:
                if isinstance(arg, Value):
                    yield from arg.parts()

    def apply(self, given: object, known: Callable[["Value"], object]) -> Any:
        """Return what the steps make of *given*.

        Args:
            given: the argument or variable.
            known: tells the origin of another value, which a step takes.

        Raises:
            ProgramError: the steps are not all known.
            Exception: what a step raises, as the author's code would.
        """
        if not self.exact:
            raise ProgramError(f"what is done to {self} is not known")
        for step in self.steps:
            args = [
                arg.apply(known(arg), known) if isinstance(arg, Value) else arg
                for arg in step.args
            ]
            given = _STEPS[step.name](given, *args)
        return given

    def as_json(self) -> dict[str, object]:
        """Return it as JSON values."""
        made: dict[str, object] = {self.source: self.name}
        if self.node >= 0:
            made["node"] = self.node
        if self.steps:
            made["steps"] = [[step.name, *map(_json, step.args)] for step in self.steps]
        if not self.exact:
            made["exact"] = False
        return made


@dataclass(frozen=True, slots=True)
class Mark:
    """A value that stands in a text."""

    value: Value


def is_constant(given: object) -> bool:
    """Return whether *given* is plain data that cannot change."""
    if type(given) is tuple:
        return all(map(is_constant, given))
    return given is None or type(given) in (str, int, float, bool)


def _json(arg: object) -> object:
    if isinstance(arg, Value):
        return arg.as_json()
    return list(arg) if isinstance(arg, tuple) else arg


def _text(given: object) -> str:
    if not isinstance(given, str):
        raise TypeError(f"expected a string, not {type(given).__name__}: {given!r}")
    return given


def _method(name: str) -> Callable[..., object]:
    return lambda given, *args: getattr(given, name)(*args)


TEXT_METHODS = (
    "capitalize",
    "casefold",
    "center",
    "expandtabs",
    "ljust",
    "lower",
    "lstrip",
    "removeprefix",
    "removesuffix",
    "replace",
    "rjust",
    "rstrip",
    "strip",
    "swapcase",
    "title",
    "upper",
    "zfill",
)
OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "truediv": operator.truediv,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "pow": operator.pow,
}
_STEPS: Mapping[str, Callable[..., object]] = {
    "text": _text,
    "str": str,
    "repr": repr,
    "format": format,
    "item": operator.getitem,
    "part": lambda given, *bounds: given[slice(*bounds)],
    "get": _method("get"),
    "neg": operator.neg,
    "abs": abs,
    "round": round,
    **OPERATORS,
    **{f"r{name}": (lambda a, b, do=do: do(b, a)) for name, do in OPERATORS.items()},
    **{name: _method(name) for name in TEXT_METHODS},
}
