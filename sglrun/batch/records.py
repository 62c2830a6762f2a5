"""Records: a result as one line of JSON.

Every value becomes valid JSON in UTF-8. What JSON has no word for is written so: a
number that is not finite as ``null``; bytes as text; dates, decimals, paths and the
like as Python prints them, an integer that it does not print in hexadecimal text;
sets as lists; dataclasses as objects; anything else as the
name of its class in angle brackets. The variable of a generation without a name is
called ``""``.
"""

import dataclasses
import datetime as dt
import decimal
import enum
import functools
import json
import math
import pathlib
import uuid
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from sglrun.backends.base import Usage
from sglrun.batch.results import ErrorInfo, Layout, RowResult

DETAILS = "_sglrun"
"""The column of the flat layout that holds all that is no row and no variable."""

_DEEPEST = 100
_COST_DIGITS = 12
# Some readers take these for the end of a line; JSON may spell them another way.
_LINE_ENDS = {"\u2028": "\\u2028", "\u2029": "\\u2029", "\x85": "\\u0085"}
_PRINTED = (
    dt.date,
    dt.time,
    dt.timedelta,
    decimal.Decimal,
    pathlib.PurePath,
    uuid.UUID,
)
_USAGE = tuple(field.name for field in dataclasses.fields(Usage))
_ERROR = tuple(field.name for field in dataclasses.fields(ErrorInfo))
_INDEX = b'"index": '


def render_record(
    result: RowResult,
    *,
    layout: Layout = "record",
    redacted: Callable[[str], str] = str,
) -> bytes:
    """Return *result* as a line of UTF-8 JSON, with its end.

    Args:
        result: what became of a row.
        layout: ``record``, or ``flat``: the row as it was given, a column for each
            variable, and the rest in ``_sglrun``.
        redacted: takes out of JSON what must not appear.
    """
    text = redacted(_record(result) if layout == "record" else _flat(result))
    if not text.isascii():
        for mark, spelled in _LINE_ENDS.items():
            text = text.replace(mark, spelled)
    # What UTF-8 cannot hold is half a surrogate pair inside a string: \udXXX in JSON.
    return (text + "\n").encode("utf-8", "backslashreplace")


def with_index(line: bytes, index: int, layout: Layout) -> bytes:
    """Return a rendered *line* with another index."""
    start, end = _index_place(line, layout)
    return line[:start] + b"%d" % index + line[end:]


def index_of(line: bytes, layout: Layout) -> int | None:
    """Return the index in a rendered *line*; ``None`` if it is no such line."""
    start, end = _index_place(line, layout)
    return int(line[start:end]) if line[start:end].isdigit() else None


def _index_place(line: bytes, layout: Layout) -> tuple[int, int]:
    if layout == "record":
        start = len(_INDEX) + 1
        return start, line.find(b",", start)
    return line.rfind(_INDEX) + len(_INDEX), line.rfind(b"}}")


def json_text(value: object) -> str:
    """Return *value* as JSON on one line; never fails for want of a JSON word."""
    try:
        return _ENCODER.encode(value)
    except Exception:  # noqa: BLE001 - the author's own object may raise anything
        return _ENCODER.encode(_plain(value, 0))


def _record(result: RowResult) -> str:
    members = {"index": str(result.index)}
    if result.id is not None:
        members["id"] = _one_line(result.id)
    members["status"] = _status(result)
    members["output"] = json_text(_named(result.output))
    members["row"] = _object({k: _one_line(v) for k, v in result.rest.items()})
    return _object(members | _details(result))


def _flat(result: RowResult) -> str:
    members = {k: _one_line(v) for k, v in result.row.raw.items()}
    members |= {k: json_text(v) for k, v in _named(result.output).items()}
    members.pop(DETAILS, None)
    # Last and with the index at its end, where ``with_index`` finds it.
    details = {"status": _status(result), **_details(result)}
    members[DETAILS] = _object(details | {"index": str(result.index)})
    return _object(members)


def _details(result: RowResult) -> dict[str, str]:
    usage, error = result.usage, result.error
    members = {}
    if error is not None:
        told = {name: getattr(error, name) for name in _ERROR}
        members["error"] = json_text({k: v for k, v in told.items() if v is not None})
    members["usage"] = _object({name: str(getattr(usage, name)) for name in _USAGE})
    if result.cost is not None:
        members["cost"] = json_text(round(result.cost, _COST_DIGITS))
    if result.finish_reasons:
        members["finish_reasons"] = json_text(_named(result.finish_reasons))
    members["seconds"] = json_text(round(result.seconds, 3))
    members["attempts"] = str(result.attempts)
    if result.approximations:
        members["approximations"] = json_text(result.approximations)
    return members | {k: json_text(v) for k, v in result.extra.items()}


def _status(result: RowResult) -> str:
    return '"ok"' if result.ok else '"error"'


def _object(members: Mapping[str, str]) -> str:
    inner = ", ".join([f"{_name(name)}: {text}" for name, text in members.items()])
    return f"{{{inner}}}"


@functools.lru_cache(maxsize=512)
def _name(name: str) -> str:
    return json_text(name)


def _one_line(raw: str) -> str:
    """Return JSON text as written but for line breaks, which are white space there."""
    return raw.replace("\r", " ")


def _named(values: Mapping[str, object]) -> dict[str, object]:
    return {_key(name): value for name, value in values.items()}


def _key(name: object) -> str:
    return name if isinstance(name, str) else "" if name is None else str(name)


def _as_text(value: bytes | bytearray) -> str:
    return bytes(value).decode("utf-8", "backslashreplace")


def _as_object(value: Any) -> dict[str, object]:
    return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}


# The first that fits.
_WRITTEN: tuple[tuple[type | tuple[type, ...], Callable[[Any], object]], ...] = (
    (enum.Enum, lambda member: member.value),
    ((bytes, bytearray), _as_text),
    (_PRINTED, str),
    (Mapping, dict),
    ((AbstractSet, Sequence), list),
)


def _fallback(value: object) -> object:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _as_object(value)
    for kind, written in _WRITTEN:
        if isinstance(value, kind):
            return written(value)
    return f"<{_class_of(value)}>"


def _class_of(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=_fallback)


def _plain(value: object, depth: int) -> object:
    """Return *value* made of what JSON has words for."""
    if depth > _DEEPEST:
        return "<nested too deeply>"
    match value:
        case None | bool() | str():
            return value
        case int() | float():
            return _number(value)
        case dict():
            return {
                _text_of(key): _plain(each, depth + 1) for key, each in value.items()
            }
        case list() | tuple():
            return [_plain(each, depth + 1) for each in value]
        case _:
            return _plain(_read(value), depth + 1)


def _read(value: object) -> object:
    try:
        return _fallback(value)
    except Exception as exc:  # noqa: BLE001 - as in ``json_text``
        return f"<{_class_of(value)}, which raises {type(exc).__name__}>"


def _number(value: object) -> object:
    """Return *value*, or what stands for a number that cannot be written."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    text = _text_of(value)
    return text if text.lstrip("-").startswith("0x") else value


def _text_of(key: object) -> str:
    try:
        return str(key)
    except ValueError:  # an integer of more digits than Python prints
        return hex(key) if isinstance(key, int) else _class_of(key)
