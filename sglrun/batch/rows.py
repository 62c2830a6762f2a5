"""Rows: lines of the input, as values and as they were written."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, Self, cast

import jsonlines

from sglrun.batch.sources import Source, TornInputError
from sglrun.errors import RowError
from sglrun.interpreter.program import Program

_SHOWN = 60
_WHITE = b" \t\r\n"
# A mark of an object with the white space around it; "{}" counts as its end.
_opened = re.compile(r"[ \t\n\r]*(?:\{[ \t\n\r]*(?=\}))?([{}])[ \t\n\r]*").match
_named = re.compile(r"[ \t\n\r]*(:)[ \t\n\r]*").match
_separated = re.compile(r"[ \t\n\r]*([,}])[ \t\n\r]*").match


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the input that is not blank.

    Attributes:
        index: 0-based among the rows.
        line: 1-based among all lines.
        content: the line's bytes, without white space around it.
        fields: name to value.
        raw: name to the value's JSON text, exactly as it was written.
        error: why the line is no row, if so; it has no fields then.
    """

    index: int
    line: int
    content: bytes
    fields: Mapping[str, object] = field(default_factory=dict)
    raw: Mapping[str, str] = field(default_factory=dict)
    error: RowError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What a row gives a program.

    Attributes:
        arguments: the fields that the program takes.
        id: the JSON text of the field ``id``, where it is no argument.
        rest: the other fields, name to JSON text.
    """

    arguments: Mapping[str, object]
    id: str | None
    rest: Mapping[str, str]


def given(row: Row, program: Program) -> Given:
    """Return what *row* gives *program*; a bound argument's field is not taken."""
    rest = {name: text for name, text in row.raw.items() if not program.takes(name)}
    return Given(
        arguments={
            name: value for name, value in row.fields.items() if name not in rest
        },
        id=rest.pop("id", None),
        rest=rest,
    )


class RowReader:
    """The rows of an input, read one by one as they are asked for; iterate once.

    Attributes:
        source: where the rows come from.
    """

    def __init__(self, source: Source) -> None:
        """Read from *source*, and close it with the reader."""
        self.source = source

    def __iter__(self) -> Iterator[Row]:
        """Iterate over the rows; a line that is none is a row with an ``error``.

        So is the place where a compressed input breaks off.

        Raises:
            InputError: the system cannot read on.
        """
        lines, index = _Lines(self.source), 0
        reader = jsonlines.Reader(lines, loads=_parse_object)
        while True:
            fields: dict[str, object] = {}
            raw: dict[str, str] = {}
            error: RowError | None = None
            try:
                fields, raw = cast("Any", reader.read())
            except EOFError:
                return
            except jsonlines.InvalidLineError as exc:
                error = _row_error(exc, f"{self.source.name}:{lines.number}")
            except TornInputError as exc:
                error = RowError(str(exc))
            yield Row(
                index=index,
                line=lines.number,
                content=lines.content,
                fields=fields,
                raw=raw,
                error=error,
            )
            index += 1

    def close(self) -> None:
        """Close the source."""
        self.source.close()

    def __enter__(self) -> Self:
        """Return the reader."""
        return self

    def __exit__(self, *exc: object) -> None:
        """Close."""
        self.close()


def read_rows(path: str) -> RowReader:
    """Return the rows of the JSONL file *path*, or of stdin for ``-``.

    gzip and zstd are unpacked, whatever the file is called.

    Raises:
        InputError: it cannot be opened.
    """
    return RowReader(Source(path))


class _Lines:
    """The lines that are not blank, and which one was last."""

    def __init__(self, source: Source) -> None:
        self._source = iter(source)
        self.number = 0
        self.content = b""

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        while True:
            self.number, self.content = self.number + 1, b""
            line = next(self._source)
            self.content = line.strip(_WHITE)
            if self.content:
                return line.rstrip(b"\r\n")


def _row_error(exc: jsonlines.InvalidLineError, where: str) -> RowError:
    cause = exc.__cause__
    match cause:
        case UnicodeDecodeError():
            column, what = cause.start + 1, f"not UTF-8: {cause.reason}"
        case json.JSONDecodeError():
            column, what = cause.colno, cause.msg
        case _:
            column, what = 1, str(cause)
    shown = exc.line[:_SHOWN] if len(exc.line) > _SHOWN else exc.line
    return RowError(f"{where}:{column}: {what}: {shown!r}")


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"not JSON: {constant} is no number of JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)


def _parse_object(text: str | bytes) -> tuple[dict[str, object], dict[str, str]]:
    """Return the members of a JSON object as values and as texts.

    Raises:
        ValueError: *text* is something else.
    """
    line = str(text)
    try:
        if not line.lstrip().startswith("{"):
            _DECODER.decode(line)
            raise ValueError("not a row: a row is a JSON object, as {...}")
        return _parse_members(line)
    except json.JSONDecodeError as exc:
        raise json.JSONDecodeError(f"not JSON: {exc.msg}", exc.doc, exc.pos) from exc
    except RecursionError as exc:
        raise ValueError("not a row: nested too deeply") from exc


def _parse_members(line: str) -> tuple[dict[str, object], dict[str, str]]:
    fields: dict[str, object] = {}
    raw: dict[str, str] = {}
    mark, at = _next(_opened, line, 0, "'{'")
    while mark != "}":
        if line[at : at + 1] != '"':
            raise json.JSONDecodeError("a name in double quotes must stand", line, at)
        name, at = _DECODER.raw_decode(line, at)
        _, at = _next(_named, line, at, "':'")
        value, end = _DECODER.raw_decode(line, at)
        fields[name] = value
        raw[name] = line[at:end]
        mark, at = _next(_separated, line, end, "',' or '}'")
    if at != len(line):
        raise json.JSONDecodeError("something stands after the object", line, at)
    return fields, raw


def _next(
    match: Callable[[str, int], re.Match[str] | None], line: str, at: int, marks: str
) -> tuple[str, int]:
    """Return the mark that stands at *at*, and where the next thing begins."""
    found = match(line, at)
    if found is None:
        raise json.JSONDecodeError(f"{marks} must stand", line, at)
    return found[1], found.end()
