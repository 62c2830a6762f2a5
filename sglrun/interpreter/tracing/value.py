"""A value that is not known before the run: where it comes from, what is made of it."""

import json
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

from sglrun.errors import ProgramError
from sglrun.lang import ir

Constant = str | int | float | bool | None

# What reads values calls itself for each level, and goes through all of its parts.
_MOST_LEVELS, _MOST_PARTS = 50, 1000


@dataclass(frozen=True, slots=True)
class Step:
    """Something done to a value, with constants: ``Step("strip")`` is ``.strip()``."""

    name: str
    args: tuple[object, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """Something that is not known yet, and the steps from it.

    Attributes:
        source: what it is: an argument, a variable, text with such values in it, what
            a call gives that may give something else the next time, or a global that
            the program changes.
        name: its name.
        node: the generation in the graph that a variable comes from.
        fragments: of a text.
        steps: what is done to it, in order.
        exact: the steps say all that is done; otherwise they only describe it.
        is_text: it is certainly text, whatever the row and the model say.
        levels: how many of the values that it is made of stand in each other.
        size: how many there are.
    """

    source: Literal["argument", "variable", "text", "call", "global"]
    name: str | None = None
    node: int = -1
    fragments: tuple["Fragment", ...] = ()
    steps: tuple[Step, ...] = ()
    exact: bool = True
    is_text: bool = field(default=False, compare=False)
    levels: int = field(init=False, compare=False)
    size: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        """Count the values."""
        marked = [part.value for part in self.fragments if isinstance(part, Mark)]
        args = (arg for step in self.steps for arg in step.args)
        inner = (*marked, *(arg for arg in args if isinstance(arg, Value)))
        levels = 1 + max((value.levels for value in inner), default=0)
        object.__setattr__(self, "levels", levels)
        object.__setattr__(self, "size", 1 + sum(value.size for value in inner))

    def __str__(self) -> str:
        """Return its origin in words."""
        if self.source == "text":
            marks = (part for part in self.fragments if isinstance(part, Mark))
            return next((str(mark.value) for mark in marks), "text")
        if self.source == "call":
            return f"{self.name}()"
        if self.name is None and self.node < 0:
            return "an unknown value"
        return f"{self.source} {self.name!r}"

    @property
    def is_composed(self) -> bool:
        """Whether it is text, as it was put together."""
        return self.source == "text" and not self.steps

    def then(self, name: str, *args: object) -> "Value":
        """Return what *name* with *args*, constants or values, makes of it."""
        plain = [is_constant(arg) or isinstance(arg, Value) for arg in args]
        inner = [arg.exact for arg in args if isinstance(arg, Value)]
        exact = self.exact and all((*plain, *inner))
        kept = tuple(
            arg if known else "…" for arg, known in zip(args, plain, strict=True)
        )
        made = replace(
            self,
            steps=(*self.steps, Step(name, kept)),
            exact=exact,
            is_text=name in _GIVES_TEXT or (self.is_text and name in _KEEPS_TEXT),
        )
        return _bounded(made)

    def as_text(self) -> "Value":
        """Return the value where only text will do."""
        return self if self.is_text else self.then("text")

    def as_said(self) -> "Value":
        """Return the value as a program says it."""
        return self if self.is_text else self.then("said")

    def inexact(self) -> Self:
        """Return the value with steps that are not all known."""
        return replace(self, exact=False, is_text=False)

    def may_fail(self, name: str, *args: object) -> bool:
        """Return whether *name* with *args* may raise for what this stands for."""
        if name in _NEVER_FAILS or (name == "format" and args == ("",)):
            return False
        if not self.is_text or name not in _KEEPS_TEXT:
            return not (self.is_text and name in ("text", "said"))
        if not all(map(is_constant, args)):
            return True
        try:
            _STEPS[name]("", *args)
        except Exception:  # noqa: BLE001 - of whatever kind
            return True
        return False

    def parts(self) -> Iterator["Value"]:
        """Iterate over the arguments, variables and calls that it is made of."""
        if self.source == "text":
            for part in self.fragments:
                if isinstance(part, Mark):
                    yield from part.value.parts()
        else:
            yield self
        for step in self.steps:
            for arg in step.args:
                if isinstance(arg, Value):
                    yield from arg.parts()

    def apply(self, origin: Callable[["Value"], object]) -> Any:
        """Return what it is.

        Args:
            origin: tells what an argument or a variable is.

        Raises:
            ProgramError: the steps are not all known.
            Exception: what a step raises, as the author's code would.
        """
        if not self.exact:
            raise ProgramError(f"what is done to {self} is not known")
        if self.source == "text":
            given: Any = said(self.fragments, lambda value: value.apply(origin))
        else:
            given = origin(self)
        for step in self.steps:
            args = [
                arg.apply(origin) if isinstance(arg, Value) else arg
                for arg in step.args
            ]
            given = _STEPS[step.name](given, *args)
        return given

    def as_json(self) -> dict[str, object]:
        """Return it as JSON values; ``value_of`` reads it back."""
        if self.source == "text":
            made: dict[str, object] = {"text": fragments_json(self.fragments)}
        else:
            made = {self.source: self.name}
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


Fragment = str | Mark
"""Constant text, or a value that is not known yet."""


def composed(fragments: tuple[Fragment, ...]) -> Value:
    """Return the text that *fragments* are."""
    marks = [part.value for part in fragments if isinstance(part, Mark)]
    exact = all(value.exact for value in marks)
    made = Value(source="text", fragments=fragments, exact=exact, is_text=True)
    return _bounded(made)


def _bounded(value: Value) -> Value:
    """Return *value*; where it is made of too much, only what it comes from."""
    if value.levels <= _MOST_LEVELS and value.size <= _MOST_PARTS:
        return value
    origins = dict.fromkeys(
        (part.source, part.name, part.node) for part in value.parts()
    )
    return Value(
        source="text",
        fragments=tuple(
            Mark(Value(source=source, name=name, node=node))
            for source, name, node in origins
        ),
        steps=(Step("…"),),
        exact=False,
        is_text=value.is_text,
    )


def said(fragments: tuple[Fragment, ...], known: Callable[[Value], object]) -> str:
    """Return text with its values."""
    return "".join(
        part if isinstance(part, str) else str(known(part.value)) for part in fragments
    )


def fragments_json(fragments: tuple[Fragment, ...]) -> list[object]:
    """Return text as JSON: constant parts as strings, unknown values as objects."""
    return [
        part if isinstance(part, str) else part.value.as_json() for part in fragments
    ]


def fragments_of(given: Any) -> tuple[Fragment, ...]:
    """Return the text that ``fragments_json`` wrote."""
    return tuple(
        part if isinstance(part, str) else Mark(value_of(part)) for part in given
    )


def value_of(given: Any) -> Value:
    """Return the value that ``Value.as_json`` wrote."""
    source: Any = next(key for key in _SOURCES if key in given)
    is_text = source == "text"
    return Value(
        source=source,
        name=None if is_text else given[source],
        node=given.get("node", -1),
        fragments=fragments_of(given[source]) if is_text else (),
        steps=tuple(
            Step(name, tuple(map(_from_json, args)))
            for name, *args in given.get("steps", ())
        ),
        exact=given.get("exact", True),
        is_text=is_text and "steps" not in given,
    )


def is_constant(given: object) -> bool:
    """Return whether *given* is plain data that cannot change."""
    if type(given) is tuple:
        return all(map(is_constant, given))
    return given is None or type(given) in (str, int, float, bool)


def _json(arg: object) -> object:
    if isinstance(arg, Value):
        return arg.as_json()
    return list(map(_json, arg)) if isinstance(arg, tuple) else arg


def _from_json(arg: Any) -> object:
    if isinstance(arg, dict):
        return value_of(arg)
    return tuple(map(_from_json, arg)) if isinstance(arg, list) else arg


def _text(given: object) -> str:
    if not isinstance(given, str):
        raise TypeError(f"expected a string, not {type(given).__name__}: {given!r}")
    return given


def _said(given: object) -> str:
    expr = ir.as_expr(given)
    if not isinstance(expr, ir.Text):  # no row has one
        raise TypeError(f"expected a string, not {type(given).__name__}: {given!r}")
    return expr.value


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
    "said": _said,
    "str": str,
    "repr": repr,
    "ascii": ascii,
    "format": format,
    "percent": lambda given, spec: spec % (given,),
    "joined": lambda given, separator: separator.join(given),
    "json": lambda given, ensure_ascii: json.dumps(given, ensure_ascii=ensure_ascii),
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
_NEVER_FAILS = frozenset({"str", "repr", "ascii"})
_GIVES_TEXT = frozenset(
    ["text", "said", "str", "repr", "ascii", "format", "percent", "json", "joined"]
)
_KEEPS_TEXT = frozenset({*TEXT_METHODS, "part", "item"})
_SOURCES = ("argument", "variable", "text", "call")
