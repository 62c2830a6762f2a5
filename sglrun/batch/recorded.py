"""Recorded results: lines of a results file or a journal, read back as data.

A line that is no result is counted and skipped: what is read may be torn, or not ours.
Of a failed row that was run again only the last line of the journal counts.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from math import isfinite
from typing import Any

from sglrun.backends.base import Usage
from sglrun.batch.journal import unpack
from sglrun.batch.records import DETAILS
from sglrun.batch.results import ErrorInfo
from sglrun.batch.sources import Source

_LONGEST_NUMBER = 4000  # Python refuses to read more digits
_NOT_RESULTS = (ValueError, TypeError, KeyError, AttributeError, RecursionError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One result as it was written.

    Attributes:
        index: the row's index.
        id: the row's id, if it has one.
        output: the program's variables; in the flat layout the row's fields, too.
        given: what the result holds of the row beside that.
        error: why the row failed; ``None`` if it did not.
        usage: what its requests cost.
        finish_reasons: why each generation ended, by variable.
        seconds: from its start to its end.
        attempts: the most tries of one request.
    """

    index: int
    id: object = None
    output: Mapping[str, object] = field(default_factory=dict)
    given: Mapping[str, object] = field(default_factory=dict)
    error: ErrorInfo | None = None
    usage: Usage = field(default_factory=Usage)
    finish_reasons: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    attempts: int = 1


class RecordedReader:
    """The results in a file; iterate once.

    Attributes:
        unread: lines so far that are no results.
    """

    def __init__(self, path: str, *, is_journal: bool = False) -> None:
        """Read *path*, or stdin for ``-``.

        Args:
            path: results, packed or not.
            is_journal: it is the journal of a run, which may go on meanwhile.
        """
        self._path = path
        self._is_journal = is_journal
        self.unread = 0

    def __iter__(self) -> Iterator[Recorded]:
        """Iterate over the results in the order of the file.

        Raises:
            InputError: it cannot be read, or not to its end.
        """
        for line in self._newest() if self._is_journal else self._lines():
            try:
                result = parse_result(line)
            except _NOT_RESULTS:
                self.unread += 1
                continue
            yield result

    def _lines(self) -> Iterator[bytes]:
        with Source(self._path) as source:
            yield from filter(bytes.strip, source)

    def _newest(self) -> Iterator[bytes]:
        """Yield the lines of a journal but those of rows that were run again."""
        last: dict[int, int] = {}  # of rows that failed, the number of the last line
        for number, (line, finished) in enumerate(self._entries()):
            if not finished or (last and _index(line) in last):
                last[_index(line)] = number
        for number, (line, finished) in enumerate(self._entries()):
            if finished or last.get(_index(line), number) == number:
                yield line

    def _entries(self) -> Iterator[tuple[bytes, bool]]:
        self.unread = 0
        with Source(self._path) as source:
            for packed in source:
                entry = unpack(packed)
                if entry is None:
                    self.unread += 1
                else:
                    yield entry.line, entry.finished


def parse_result(line: bytes) -> Recorded:
    """Return the result that *line* holds.

    Raises:
        ValueError: it holds none; other errors of Python's own say the same.
    """
    members = _DECODER.decode(line.decode("utf-8"))
    details = members.get(DETAILS, members)
    if details["status"] not in ("ok", "error"):
        raise ValueError(f"no status: {details['status']!r}")
    seconds = float(details["seconds"])
    if not isfinite(seconds):
        raise ValueError(f"no time: {seconds}")
    output = {name: value for name, value in members.items() if name != DETAILS}
    rest: dict[str, object] = {}
    if details is members:
        output = dict(members["output"])
        rest = {**(members.get("arguments") or {}), **members["row"]}
    reasons = dict(details.get("finish_reasons") or {})
    return Recorded(
        index=int(details["index"]),
        id=members.get("id"),
        output=output,
        given=rest,
        error=_error(details["error"]) if details["status"] == "error" else None,
        usage=_usage(details["usage"]),
        finish_reasons={name: str(reason) for name, reason in reasons.items()},
        seconds=seconds,
        attempts=int(details["attempts"]),
    )


def _usage(members: Mapping[str, Any]) -> Usage:
    # A field that is not known is from another version of this program.
    return Usage(**{name: int(members.get(name, 0)) for name in _USAGE})


def _error(members: Mapping[str, Any]) -> ErrorInfo:
    variable, where = (members.get(name) for name in ("variable", "where"))
    return ErrorInfo(
        type=str(members["type"]),
        message=str(members["message"]),
        variable=None if variable is None else str(variable),
        where=None if where is None else str(where),
    )


def _index(line: bytes) -> int:
    try:
        return parse_result(line).index
    except _NOT_RESULTS:
        return -1


_USAGE = tuple(item.name for item in fields(Usage))


def _whole_number(text: str) -> int | str:
    return int(text) if len(text) < _LONGEST_NUMBER else text


_DECODER = json.JSONDecoder(parse_int=_whole_number)
