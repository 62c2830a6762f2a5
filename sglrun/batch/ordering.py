"""The ordering: from a journal to results in the order of the rows, read back.

Rule: that each row has its one result is found out from what was written, not from
what was counted.
"""

import hashlib
import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sglrun.batch.digests import NO_DIGEST, SIZE
from sglrun.batch.journal import Entry, Journal
from sglrun.batch.records import index_of, with_index
from sglrun.batch.results import Layout
from sglrun.errors import RunStoppedError

_BUFFER_SIZE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordered:
    """What was written.

    Attributes:
        rows: its lines.
        size_bytes: its size.
        sha256: its checksum.
        keys: the digests of its rows, in order; zeros for one that is not finished.
    """

    rows: int
    size_bytes: int
    sha256: str
    keys: bytes


def mark_of(key: bytes) -> int:
    """Return what tells the digest of a row from nearly all others, in 4 bytes."""
    return int.from_bytes(key[:4], "little")


def write_ordered(
    new: Path,
    journal: Journal,
    *,
    places: Iterable[int | None],
    marks: Sequence[int],
    layout: Layout,
) -> Ordered:
    """Write the results of all rows to *new*; waits until the disk has them.

    Args:
        new: a file to be made.
        journal: holds the results.
        places: for each row, where in the journal its result begins.
        marks: for each row, the mark of its digest.
        layout: how results are rendered.

    Raises:
        RunStoppedError: a row has no result, or not the one that was written.
        OSError: the file cannot be written.
    """
    keys = bytearray()
    rows = checksum = 0
    with journal.reader() as reader, new.open("wb", _BUFFER_SIZE) as file:
        for row, place in enumerate(places):
            entry = None if place is None else reader.at(place)
            if entry is None or mark_of(entry.key) != marks[row]:
                raise _missing(row, journal.path)
            line = entry.line
            if index_of(line, layout) != row:
                line = with_index(line, row, layout)
            file.write(line)
            checksum = zlib.crc32(line, checksum)
            keys += entry.key if entry.finished else NO_DIGEST
            rows = row + 1
        file.flush()
        os.fsync(file.fileno())
    if rows != len(marks):
        raise _missing(rows, journal.path)
    size_bytes, sha256 = _read_back(new, rows, checksum, layout)
    return Ordered(rows=rows, size_bytes=size_bytes, sha256=sha256, keys=bytes(keys))


def entries_of(lines: Iterable[bytes], keys: bytes) -> Iterator[Entry]:
    """Yield the entries of a journal that complete results are made of.

    Args:
        lines: the results.
        keys: the digests of their rows, as they were written.
    """
    for row, line in enumerate(lines):
        key = keys[SIZE * row : SIZE * (row + 1)]
        yield Entry(line=line, finished=key != NO_DIGEST, key=key)


def _read_back(new: Path, rows: int, checksum: int, layout: Layout) -> tuple[int, str]:
    """Check that each row has the line that was written; return size and checksum."""
    sha256, found, size, row = hashlib.sha256(), 0, 0, 0
    with new.open("rb", _BUFFER_SIZE) as file:
        for line in file:
            if index_of(line, layout) != row:
                raise _not_written(f"line {row + 1} is not that of row {row}")
            sha256.update(line)
            found = zlib.crc32(line, found)
            size += len(line)
            row += 1
    if row != rows:
        raise _not_written(f"there are {row} lines for {rows} rows")
    if found != checksum:
        raise _not_written("their checksum is another one")
    return size, sha256.hexdigest()


def _not_written(what: str) -> RunStoppedError:
    return RunStoppedError(
        f"the results are not on the disk as they were written: {what}; the journal is "
        "kept: look after the disk and give the same command again"
    )


def _missing(row: int, part: Path) -> RunStoppedError:
    return RunStoppedError(
        f"row {row} has no result in {str(part)!r}; the others are kept, give the same "
        "command again to run it"
    )
