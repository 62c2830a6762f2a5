"""The check: what is wrong with rows, found before a model is asked."""

import re
import types
import typing
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sglrun.batch.digests import DigestIndex, digest
from sglrun.batch.rows import Row, given
from sglrun.errors import ProgramError
from sglrun.interpreter.program import Program

_COLUMN = re.compile(r":\d+:(\d+)$")


@dataclass(frozen=True, slots=True)
class Complaint:
    """What is wrong with one row.

    Attributes:
        line: where it stands, from 1.
        message: what is wrong, with the value.
        fails: the row cannot run; otherwise it can, but perhaps should not.
        column: where in the line, from 1, where that is known.
    """

    line: int
    message: str
    fails: bool = True
    column: int | None = None

    @property
    def place(self) -> str:
        """The line, with the column where it is known."""
        return f"{self.line}" if self.column is None else f"{self.line}:{self.column}"


def check_rows(program: Program, rows: Iterable[Row]) -> Iterator[Complaint]:
    """Yield what is wrong with *rows* as arguments of *program*, in their order.

    A row fails that is no JSON object, lacks an argument, gives one a value of a type
    that its annotation rules out, or says a field twice (a run takes the last). An id
    that came before is told and does not fail. Of each id some 50 bytes are held.
    """
    expected = _expected(program)
    seen = _Seen()
    for row in rows:
        if (error := row.error_for(program)) is not None:
            yield _not_a_row(row.line, str(error))
            continue
        taken = given(row, program)
        for name, column in row.repeated.items():
            yield Complaint(row.line, f"{name!r} stands here twice", column=column)
        yield from _unfit(program, row.line, taken.arguments, expected)
        if taken.id is None:
            continue
        first = seen.first_line(taken.id, row.line)
        if first != row.line:
            message = f"the id {taken.id} is that of line {first} too"
            yield Complaint(row.line, message, fails=False)


class _Seen:
    """Where each id stood first."""

    def __init__(self) -> None:
        self._ids = DigestIndex()
        self._lines = array("Q")

    def first_line(self, text: str, line: int) -> int:
        """Return where the id *text*, which stands in *line*, stood first."""
        key = digest(text.encode("utf-8", "surrogatepass"))
        before = self._ids.take(key)
        first = line if before is None else self._lines[before]
        self._ids.add(key)
        self._lines.append(first)
        return first


def _not_a_row(line: int, words: str) -> Complaint:
    """Return a complaint in *words*, which begin with where it stands."""
    place, _, message = words.partition(": ")
    found = _COLUMN.search(place)
    return Complaint(line, message, column=None if found is None else int(found[1]))


def _unfit(
    program: Program,
    line: int,
    arguments: Mapping[str, object],
    expected: Mapping[str, object],
) -> Iterator[Complaint]:
    try:
        program.check_arguments(arguments)
    except ProgramError as exc:
        yield Complaint(line, str(exc))
    for name, value in arguments.items():
        if name in expected and not _fits(value, expected[name]):
            kind = _name(expected[name])
            yield Complaint(line, f"{name!r} is {_shown(value)}, not {kind}")


def _expected(program: Program) -> Mapping[str, object]:
    """Return the annotations of the arguments; none if they cannot be read."""
    try:
        hints = typing.get_type_hints(program.func)
    except Exception:  # noqa: BLE001 - the author's annotations can be anything
        return {}
    return {name: hints[name] for name in program.free if name in hints}


def _fits(value: object, kind: object) -> bool:
    """Return whether *value* can be what *kind* says; what is not known fits."""
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, one) for one in inside)
    if origin is typing.Literal:
        return value in inside
    if origin is typing.Annotated:
        return _fits(value, inside[0])
    check = _CHECKS.get(origin or kind)
    if check is None or not check(value):
        return check is None
    return all(_fits(one, hint) for one, hint in _parts(value, inside))


def _parts(
    value: object, inside: tuple[object, ...]
) -> Iterator[tuple[object, object]]:
    """Yield what a list or an object holds, with what each part is to be."""
    if isinstance(value, list) and len(inside) == 1:
        yield from ((one, inside[0]) for one in value)
    elif isinstance(value, dict) and len(inside) == len(("key", "value")):
        yield from ((one, inside[1]) for one in value.values())


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_list(value: object) -> bool:
    return isinstance(value, list)


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


# What JSON gives for the types that people write.
_CHECKS: Mapping[object, Callable[[object], bool]] = {
    str: lambda value: isinstance(value, str),
    bool: lambda value: isinstance(value, bool),
    int: _is_whole,
    float: lambda value: _is_whole(value) or isinstance(value, float),
    type(None): lambda value: value is None,
    list: _is_list,
    Sequence: lambda value: isinstance(value, list | str),
    Iterable: lambda value: isinstance(value, list | str),
    dict: _is_object,
    Mapping: _is_object,
}


def _name(kind: object) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind)


def _shown(value: object, most: int = 40) -> str:
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]}…"
