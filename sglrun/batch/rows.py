"""Rows: lines of the input, as values and as they were written."""

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Self, cast

import jsonlines

from sglrun.batch.members import NO_MEMBERS, Members, parse_members
from sglrun.batch.sources import LONGEST_LINE, CutLine, Source
from sglrun.errors import RowError
from sglrun.interpreter.program import Program

_SHOWN = 60
_WHITE = b" \t\r\n"
_NO_JSON = b"?"
_NONE: Mapping[str, RowError] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the input that is not blank.

    Attributes:
        index: 0-based among the rows.
        line: 1-based among all lines.
        content: the line's bytes, without white space around it.
        fields: name to value.
        raw: name to the value's JSON text, exactly as it was written.
        unread: name to why the value, which is JSON, is none of Python's; such a field
            can be passed on, and not be taken.
        repeated: name to the column of its last value, for one that stands twice.
        error: why the line is no row, if so; it has no fields then.
    """

    index: int
    line: int
    content: bytes
    fields: Mapping[str, object] = field(default_factory=dict)
    raw: Mapping[str, str] = field(default_factory=dict)
    unread: Mapping[str, RowError] = field(default_factory=dict)
    repeated: Mapping[str, int] = field(default_factory=dict)
    error: RowError | None = None

    def error_for(self, program: Program) -> RowError | None:
        """Return why the row cannot be read as one of *program*, if so."""
        if self.error is None and self.unread:
            taken = filter(program.takes, self.unread)
            return next((self.unread[name] for name in taken), None)
        return self.error


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

        Raises:
            InputError: the system cannot read on, or a compressed input breaks off.
        """
        lines, index = _Lines(self.source), 0
        reader = jsonlines.Reader(lines, loads=parse_members)
        while True:
            found = NO_MEMBERS
            error: RowError | None = None
            try:
                found = cast("Members", reader.read())
            except EOFError:
                return
            except jsonlines.InvalidLineError as exc:
                error = _row_error(exc.__cause__, lines, self.source.name)
            yield Row(
                index=index,
                line=lines.number,
                content=lines.content,
                fields=found.fields,
                raw=found.raw,
                unread=_unread(found, f"{self.source.name}:{lines.number}")
                if found.unread
                else _NONE,
                repeated=found.repeated,
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
        self.is_cut = False

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        while True:
            self.number, self.content = self.number + 1, b""
            line = next(self._source)
            self.content = line.strip(_WHITE)
            self.is_cut = isinstance(line, CutLine)
            if self.content:
                return _NO_JSON if self.is_cut else line.rstrip(b"\r\n")


def _row_error(cause: BaseException | None, lines: _Lines, name: str) -> RowError:
    content = lines.content
    shown = content[:_SHOWN].decode("utf-8", "replace")
    match cause:
        case _ if lines.is_cut:
            column, what = 1, f"a line of more than {LONGEST_LINE >> 20} MB"
        case UnicodeDecodeError():
            column, what = cause.start + 1, f"not UTF-8: {cause.reason}"
        case json.JSONDecodeError():
            column, what = cause.colno, cause.msg
        case _:
            column, what = 1, str(cause)
    return RowError(f"{name}:{lines.number}:{column}: {what}: {shown!r}")


def _unread(found: Members, where: str) -> Mapping[str, RowError]:
    digits = sys.get_int_max_str_digits()
    return {
        name: RowError(
            f"{where}:{column}: {name!r} has an integer of more than {digits:,} "
            "digits, the most that Python reads (PYTHONINTMAXSTRDIGITS sets how many)"
        )
        for name, column in found.unread.items()
    }
