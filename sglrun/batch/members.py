"""The members of a JSON object: as values, and as they were written."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

# A mark of an object with the white space around it; "{}" counts as its end.
_opened = re.compile(r"[ \t\n\r]*(?:\{[ \t\n\r]*(?=\}))?([{}])[ \t\n\r]*").match
_named = re.compile(r"[ \t\n\r]*(:)[ \t\n\r]*").match
_separated = re.compile(r"[ \t\n\r]*([,}])[ \t\n\r]*").match


@dataclass(frozen=True, slots=True)
class Members:
    """The members of an object; of equal names the last.

    Attributes:
        fields: name to value.
        raw: name to text.
        unread: name to the column of a value that has an integer too long for Python.
        repeated: name to the column of its second value or the last that follows it.
    """

    fields: dict[str, object]
    raw: dict[str, str]
    unread: dict[str, int]
    repeated: dict[str, int]


NO_MEMBERS = Members({}, {}, {}, {})


class _ConstantError(ValueError):
    """``NaN`` or the like, which other readers take for numbers."""


def _refuse(constant: str) -> NoReturn:
    raise _ConstantError(f"{constant} is no number of JSON")


_decode = json.JSONDecoder(parse_constant=_refuse).raw_decode
# Finds the end of any value, whatever Python makes of its integers.
_END_FINDER = json.JSONDecoder(parse_constant=_refuse, parse_int=len)


def parse_members(text: str | bytes) -> Members:
    """Return the members of a JSON object.

    Raises:
        ValueError: *text* is something else.
    """
    line = str(text)
    try:
        if not line.lstrip().startswith("{"):
            _END_FINDER.decode(line)
            raise ValueError("not a row: a row is a JSON object, as {...}")
        return _parse_object(line)
    except json.JSONDecodeError as exc:
        raise json.JSONDecodeError(f"not JSON: {exc.msg}", exc.doc, exc.pos) from exc
    except RecursionError as exc:
        raise ValueError("not a row: nested too deeply") from exc


def _parse_object(line: str) -> Members:
    found = Members({}, {}, {}, {})
    fields, raw, unread = found.fields, found.raw, found.unread
    mark, at = _next(_opened, line, 0, "'{'")
    while mark != "}":
        if line[at : at + 1] != '"':
            raise json.JSONDecodeError("a name in double quotes must stand", line, at)
        name, at = _decode(line, at)
        _, at = _next(_named, line, at, "':'")
        if name in raw:
            found.repeated[name] = at + 1
            unread.pop(name, None)
        try:
            fields[name], end = _decode(line, at)
        except ValueError as exc:
            end = _end_of_unread(line, at, exc)
            fields.pop(name, None)
            unread[name] = at + 1
        raw[name] = line[at:end]
        mark, at = _next(_separated, line, end, "',' or '}'")
    if at != len(line):
        raise json.JSONDecodeError("something stands after the object", line, at)
    return found


def _end_of_unread(line: str, at: int, error: ValueError) -> int:
    """Return where the value ends that begins at *at*.

    Raises:
        json.JSONDecodeError: it is no JSON, by *error*.
    """
    if isinstance(error, json.JSONDecodeError):
        raise error
    if isinstance(error, _ConstantError):
        raise json.JSONDecodeError(str(error), line, at) from error
    return _END_FINDER.raw_decode(line, at)[1]


def _next(
    match: Callable[[str, int], re.Match[str] | None], line: str, at: int, marks: str
) -> tuple[str, int]:
    """Return the mark that stands at *at*, and where the next thing begins."""
    found = match(line, at)
    if found is None:
        raise json.JSONDecodeError(f"{marks} must stand", line, at)
    return found[1], found.end()
