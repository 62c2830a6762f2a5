"""The journal: what is finished, on the disk, in the order it came.

Each line is a JSON object as it is rendered with one more member at its end, which
holds whether the row is finished, the digest of its content, the number that ties it to
lines of another journal where it has one, and a checksum of the line. What a crash
leaves behind the last whole line is cut off and named.

Rule: nothing else writes this file, and a write that fails leaves whole lines only.
"""

import errno
import fcntl
import os
import re
import threading
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from sglrun.batch.digests import SIZE
from sglrun.errors import ResultsError, ResultsLockedError, RunStoppedError

_SYNC_S = 1.0
_BUFFER_SIZE = 1 << 20
_MARK = b', "_journal": "'
_TAIL = re.compile(
    rb', "_journal": "((ok|no) ([0-9a-f]{%d})(?: ([0-9a-f]{8}))?) ([0-9a-f]{8})"\}\n\Z'
    % (2 * SIZE)
)
_LONGEST_TAIL = len(_MARK) + 2 + 1 + 2 * SIZE + 2 * (1 + 8) + len(b'"}\n')


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of a journal.

    Attributes:
        line: the object as it was rendered, with its end.
        finished: the row is not to be run again.
        key: the digest of the row's content.
        serial: the number under which the answers of the row are kept; 0 if none are.
    """

    line: bytes
    finished: bool
    key: bytes
    serial: int = 0


def pack(entry: Entry) -> bytes:
    """Return *entry* as a line of the journal."""
    body = entry.line.rstrip(b"\n").removesuffix(b"}")
    status = b"ok" if entry.finished else b"no"
    known = b"%b %b" % (status, entry.key.hex().encode())
    if entry.serial:
        known += b" %08x" % entry.serial
    return b'%b%b%b %08x"}\n' % (body, _MARK, known, zlib.crc32(body + known))


def unpack(packed: bytes) -> Entry | None:
    """Return what *packed* holds; ``None`` if it is not a whole line of a journal."""
    found = _TAIL.search(packed, max(0, len(packed) - _LONGEST_TAIL))
    if found is None:
        return None
    known, status, key, serial, checksum = found.groups()
    body = packed[: found.start()]
    if int(checksum, 16) != zlib.crc32(body + known):
        return None
    return Entry(
        line=body + b"}\n",
        finished=status == b"ok",
        key=bytes.fromhex(key.decode()),
        serial=int(serial or b"0", 16),
    )


class Journal:
    """An open journal, locked for this process; one thread appends.

    Attributes:
        path: where it lies.
        size: its bytes.
        torn: bytes of no whole line, which ``scan`` found.
    """

    def __init__(self, path: Path) -> None:
        """Open and lock the file at *path*; it is made if there is none.

        Raises:
            ResultsLockedError: another process holds it.
            ResultsError: it cannot be written.
        """
        self.path = path
        self._fd = _open_locked(path)
        self.size = os.fstat(self._fd).st_size
        self._syncer: _Syncer | None = None
        self.torn = 0

    def scan(self) -> Iterator[tuple[int, Entry]]:
        """Yield each whole line and where it begins, and cut off what follows the last.

        Afterwards ``torn`` tells how many bytes were not of whole lines.
        """
        end = place = torn = 0
        with self.reader() as file:
            for packed in file:
                entry = unpack(packed)
                place += len(packed)
                if entry is None:
                    torn += len(packed)
                    continue
                end = place
                yield place - len(packed), entry
        self.torn = torn
        if end < self.size:
            self.truncate(end)

    def reader(self) -> "JournalReader":
        """Return the file opened for reading."""
        return JournalReader(self.path)

    def append(self, entries: Sequence[Entry]) -> list[int]:
        """Write *entries*, all in one write; return where each begins.

        On return the kernel has them; the disk has them within a second.

        Raises:
            RunStoppedError: they cannot be written; what was there before is kept.
        """
        if os.fstat(self._fd).st_nlink == 0 and not self.path.exists():
            raise RunStoppedError(
                f"{str(self.path)!r} was removed while the run wrote to it, and what "
                "was finished is gone with it: give the same command again"
            )
        packed = [pack(entry) for entry in entries]
        places = []
        end = self.size
        for line in packed:
            places.append(end)
            end += len(line)
        if self._syncer is None:
            self._syncer = _Syncer(self._fd)
        try:
            write_all(self._fd, b"".join(packed))
            self._syncer.written()
        except OSError as exc:
            self.truncate(self.size)
            raise RunStoppedError(
                f"cannot write {str(self.path)!r}: {exc.strerror}; what is in it is "
                "kept: make room and give the same command again"
            ) from exc
        self.size = end
        return places

    def truncate(self, size: int) -> None:
        """Cut the file off after *size* bytes."""
        os.ftruncate(self._fd, size)
        os.lseek(self._fd, 0, os.SEEK_END)
        self.size = size

    def replace_by(self, other: "Journal") -> None:
        """Put *other*, which is whole on the disk, in the place of this file."""
        other.sync()
        other.path.rename(self.path)
        os.close(self._fd)
        self._fd, self.size = other._fd, other.size  # noqa: SLF001 - of the same class
        self._syncer, other._syncer = other._syncer, None  # noqa: SLF001
        other._fd = -1  # noqa: SLF001
        sync_folder(self.path.parent)

    def sync(self) -> None:
        """Wait until the disk has everything."""
        os.fdatasync(self._fd)

    def remove(self) -> None:
        """Remove the file and let go of it; nothing if that is done already."""
        if self._fd >= 0:  # else the name may be another run's by now
            self.path.unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        """Sync and let go of the file and its lock; safe to call twice."""
        if self._syncer is not None:
            self._syncer.close()
            self._syncer = None
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class JournalReader:
    """Lines of a journal, in order or from a place."""

    def __init__(self, path: Path) -> None:
        """Open the file at *path*."""
        self._file = path.open("rb", _BUFFER_SIZE)

    def __iter__(self) -> Iterator[bytes]:
        """Iterate over the lines."""
        return iter(self._file)

    def at(self, place: int) -> Entry | None:
        """Return the entry that begins at *place*."""
        self._file.seek(place)
        return unpack(self._file.readline())

    def __enter__(self) -> Self:
        """Return the reader."""
        return self

    def __exit__(self, *exc: object) -> None:
        """Close the file."""
        self._file.close()


class _Syncer:
    """A thread that brings what is written to the disk, at most once a second."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._dirty = threading.Event()
        self._closing = threading.Event()
        self._error: OSError | None = None  # written by the thread
        self._thread = threading.Thread(
            target=self._run, name="sglrun-sync", daemon=True
        )
        self._thread.start()

    def written(self) -> None:
        """Note that there is something to bring to the disk.

        Raises:
            OSError: the disk did not take what was there before.
        """
        if self._error is not None:
            raise self._error
        self._dirty.set()

    def close(self) -> None:
        """Bring the rest to the disk and end."""
        self._closing.set()
        self._dirty.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._closing.is_set():
                self._dirty.wait()
                self._dirty.clear()
                os.fdatasync(self._fd)
                self._closing.wait(_SYNC_S)
            os.fdatasync(self._fd)
        except OSError as exc:
            self._error = exc


def write_all(fd: int, data: bytes) -> None:
    """Write *data*, all of it.

    Raises:
        OSError: it cannot be written.
    """
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def sync_folder(folder: Path) -> None:
    """Wait until the disk has the names in *folder*."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _open_locked(path: Path) -> int:
    while True:
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        except OSError as exc:
            raise ResultsError(f"cannot write {str(path)!r}: {exc.strerror}") from exc
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            os.close(fd)
            if exc.errno in {errno.EWOULDBLOCK, errno.EACCES}:
                raise ResultsLockedError(
                    f"another run is writing {str(path)!r}"
                ) from exc
            raise ResultsError(f"cannot lock {str(path)!r}: {exc.strerror}") from exc
        if _is_at(fd, path):
            return fd
        os.close(fd)  # it was removed by who held the lock before


def _is_at(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False
