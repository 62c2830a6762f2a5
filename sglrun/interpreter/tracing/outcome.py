"""An outcome: what a program assigns or returns, with the parts that are not known."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sglrun.interpreter.tracing.marks import Marks
from sglrun.interpreter.tracing.placeholder import Placeholder
from sglrun.interpreter.tracing.value import (
    Fragment,
    Mark,
    Value,
    fragments_json,
    fragments_of,
    said,
    value_of,
)


@dataclass(frozen=True, slots=True)
class Known:
    """A value that is known now and cannot change."""

    value: str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Made:
    """A value that is not known yet."""

    value: Value


@dataclass(frozen=True, slots=True)
class Said:
    """Text with values in it that are not known yet."""

    fragments: tuple[Fragment, ...]


@dataclass(frozen=True, slots=True)
class Listed:
    """A list, or a tuple."""

    items: tuple["Outcome", ...]
    is_tuple: bool = False


@dataclass(frozen=True, slots=True)
class Mapped:
    """A dictionary with texts as keys."""

    items: tuple[tuple[str, "Outcome"], ...]


@dataclass(frozen=True, slots=True)
class Itself:
    """The program's own state."""

    words: str = "state"


@dataclass(frozen=True, slots=True)
class Opaque:
    """Something that is not data, in words."""

    words: str


NOTHING = Known(None)
Outcome = Known | Made | Said | Listed | Mapped | Itself | Opaque


def outcome_of(given: object, marks: Marks, state: object = None) -> Outcome:
    """Return *given* as an outcome.

    A collection that holds itself, or that is nested too deep, is opaque; so is all of
    *given* where it is too large.

    Args:
        given: what the author's code assigned or returned.
        marks: those of the trace.
        state: the program's own state.
    """
    try:
        return _Gatherer(marks, state).outcome(given)
    except _TooLargeError:
        return Opaque(f"{type(given).__name__} of more than {_MOST_PARTS:,} parts")


_Collection = list[object] | tuple[object, ...] | dict[object, object]
_MOST_LEVELS = 50  # what reads outcomes calls itself for each, a few calls at a time
_MOST_PARTS = 20_000


class _TooLargeError(Exception):
    """An outcome has too many parts."""


class _Gatherer:
    """Gathers one outcome."""

    def __init__(self, marks: Marks, state: object) -> None:
        self._marks = marks
        self._state = state
        self._around: list[object] = []  # the collections that hold what comes next
        self._parts = 0

    def outcome(self, given: object) -> Outcome:
        """Return *given*, which those around it hold, as an outcome.

        Raises:
            _TooLargeError: that would have too many parts.
        """
        self._parts += 1
        if self._parts > _MOST_PARTS:
            raise _TooLargeError
        if type(given) is Placeholder:
            value = given.value
            return Said(value.fragments) if value.is_composed else Made(value)
        if type(given) is str:
            parts = self._marks.fragments(given)
            is_known = not any(isinstance(part, Mark) for part in parts)
            return Known(given) if is_known else Said(parts)
        if isinstance(given, int | float | bool | None):
            return Known(given)
        if isinstance(given, list | tuple | dict):
            return self._collection(given)
        return Itself() if given is self._state else Opaque(type(given).__name__)

    def _collection(self, given: _Collection) -> Outcome:
        if any(given is each for each in self._around):
            return Opaque(f"a {type(given).__name__} that holds itself")
        if len(self._around) == _MOST_LEVELS:
            return Opaque(f"a {type(given).__name__} in {_MOST_LEVELS} others")
        self._around.append(given)
        made = self._items(given)
        self._around.pop()
        return made

    def _items(self, given: _Collection) -> Outcome:
        if isinstance(given, dict):
            pairs = [(key, self.outcome(item)) for key, item in given.items()]
            named = tuple((key, item) for key, item in pairs if isinstance(key, str))
            return Mapped(named) if len(named) == len(given) else Opaque("a dictionary")
        each = tuple(map(self.outcome, given))
        return Listed(each, is_tuple=isinstance(given, tuple))


def filled(outcome: Outcome, known: Callable[[Value], object], state: object) -> object:
    """Return *outcome* with its values.

    Args:
        outcome: what is to be filled; nothing in it is opaque.
        known: tells a value.
        state: the program's own state.
    """
    match outcome:
        case Known(value=constant):
            return constant
        case Made(value=value):
            return known(value)
        case Said(fragments=fragments):
            return said(fragments, known)
        case Listed(items=items, is_tuple=is_tuple):
            each = [filled(item, known, state) for item in items]
            return tuple(each) if is_tuple else each
        case Mapped(items=items):
            return {key: filled(item, known, state) for key, item in items}
        case _:
            return state


def outcome_json(outcome: Outcome) -> object:
    """Return *outcome* as a JSON value; unknown values are objects."""
    match outcome:
        case Known(value=constant):
            return constant
        case Made(value=value):
            return {"value": value.as_json()}
        case Said(fragments=fragments):
            return {"text": fragments_json(fragments)}
        case Listed(items=items, is_tuple=is_tuple):
            each = [outcome_json(item) for item in items]
            return {"tuple": each} if is_tuple else each
        case Mapped(items=pairs):
            return {"items": {key: outcome_json(item) for key, item in pairs}}
        case Itself(words=words) | Opaque(words=words):
            return {"object": words}


def outcome_from_json(given: Any) -> Outcome:
    """Return the outcome that ``outcome_json`` wrote."""
    if isinstance(given, list):
        return Listed(tuple(map(outcome_from_json, given)))
    if isinstance(given, dict):
        ((kind, held),) = given.items()
        return _READ[kind](held)
    return Known(given)


_READ: Mapping[str, Callable[[Any], Outcome]] = {
    "tuple": lambda held: Listed(tuple(map(outcome_from_json, held)), is_tuple=True),
    "value": lambda held: Made(value_of(held)),
    "text": lambda held: Said(fragments_of(held)),
    "items": lambda held: Mapped(
        tuple((key, outcome_from_json(item)) for key, item in held.items())
    ),
    "object": lambda _: Itself(),  # a plan holds nothing opaque
}


def values_in(outcome: Outcome) -> Iterator[Value]:
    """Iterate over the values in *outcome* that are not known yet."""
    match outcome:
        case Made(value=value):
            yield value
        case Said(fragments=fragments):
            yield from (part.value for part in fragments if isinstance(part, Mark))
        case Listed(items=items):
            for item in items:
                yield from values_in(item)
        case Mapped(items=pairs):
            for _, item in pairs:
                yield from values_in(item)
        case _:
            return


def opaque_in(outcome: Outcome) -> Iterator[str]:
    """Iterate over what in *outcome* is not data, in words."""
    match outcome:
        case Opaque(words=words):
            yield words
        case Listed(items=items):
            for item in items:
                yield from opaque_in(item)
        case Mapped(items=pairs):
            for _, item in pairs:
                yield from opaque_in(item)
        case _:
            return
