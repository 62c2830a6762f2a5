"""Sources: the bytes of an input, line by line, whatever they are packed in.

Rule: the only module that opens inputs. Nothing is read ahead of the line that is asked
for, but what one read of a file or pipe gives. At most one line is held.
"""

import gzip
import importlib
import io
import os
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, Self, cast

from sglrun.errors import InputError

STDIN = "-"

_STDIN_FD = 0
_BUFFER_SIZE = 1 << 16
_BOM = b"\xef\xbb\xbf"

LONGEST_LINE = 1 << 28
"""Bytes of a line; of a longer one, as in an image of a disk, only the beginning."""


class CutLine(bytes):
    """The beginning of a line that is longer than ``LONGEST_LINE``."""

    __slots__ = ()


class Source:
    """An open input; iterate over its lines, without their ends, once."""

    def __init__(self, path: str) -> None:
        """Open *path*, or stdin for ``-``. Waits for the writer of a FIFO.

        Raises:
            InputError: it cannot be opened.
        """
        self.is_stdin = path == STDIN
        self.name = "<stdin>" if self.is_stdin else path
        place = _STDIN_FD if self.is_stdin else path
        try:
            file = io.FileIO(place, "rb", closefd=not self.is_stdin)
            self._file: io.BufferedReader = io.BufferedReader(file, _BUFFER_SIZE)
        except (OSError, ValueError) as exc:
            reason = exc.strerror if isinstance(exc, OSError) else exc
            raise InputError(
                f"the input {self.name!r} cannot be read: {reason}", path=path
            ) from exc

        self._identity: tuple[int, int] | None = None

    @property
    def identity(self) -> tuple[int, int]:
        """The device and the file number, by which any path or link is told."""
        status = os.fstat(self._file.fileno())
        return self._identity or (status.st_dev, status.st_ino)

    def keep(self) -> None:
        """See to it that the lines can be iterated over again after ``rewind``.

        What comes through a pipe is copied to a temporary file, to its end; waits.

        Raises:
            InputError: it cannot be copied.
        """
        if self._file.seekable():
            return
        self._identity = self.identity
        try:
            copy = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the source
            shutil.copyfileobj(self._file, copy)
            copy.seek(0)
        except OSError as exc:
            folder = tempfile.gettempdir()
            raise InputError(
                f"the input {self.name!r} cannot be copied to {folder!r}: "
                f"{exc.strerror}",
                path=self.name,
            ) from exc
        self._file.close()
        self._file = cast("io.BufferedReader", copy)

    def rewind(self) -> None:
        """Begin again at the first line."""
        self._file.seek(0)

    def __iter__(self) -> Iterator[bytes]:
        r"""Iterate over the lines, split at ``\n`` alone; a byte order mark is cut.

        Raises:
            InputError: the system cannot read on, or a compressed input breaks off;
                or it is in a form that is not read.
        """
        number = 0
        try:
            for number, line in enumerate(_lines(self._unpacked()), 1):
                if number == 1 and line.startswith(_BOM):
                    line = type(line)(line[len(_BOM) :])  # noqa: PLW2901
                yield line
        except (EOFError, zlib.error, gzip.BadGzipFile) as exc:
            raise InputError(
                f"{self.name}:{number + 1}: the compressed input ends or breaks here: "
                f"{exc}",
                path=self.name,
                line=number + 1,
            ) from exc
        except OSError as exc:
            raise InputError(
                f"{self.name}:{number + 1}: cannot read on: {exc.strerror}",
                path=self.name,
                line=number + 1,
            ) from exc

    def _unpacked(self) -> BinaryIO:
        """Return what gives the content.

        Raises:
            InputError: it is in a form that is not read.
        """
        head = self._file.peek(1)
        known = (*_UNPACK, *_NOT_READ)
        if any(len(head) < len(m) and m.startswith(head) for m in known) and head:
            # A pipe that brings its first bytes one by one.
            head = self._file.read(max(map(len, known)))
            self._file = io.BufferedReader(_Rejoined(head, self._file), _BUFFER_SIZE)
        for magic, form in _NOT_READ.items():
            if head.startswith(magic):
                raise InputError(
                    f"the input {self.name!r} is {form.name}, not JSON lines: give it "
                    f"as {form.command} | sglrun batch PROGRAM -",
                    path=self.name,
                )
        for magic, unpack in _UNPACK.items():
            if head.startswith(magic):
                return unpack(self._file, self.name)
        return self._file

    def close(self) -> None:
        """Close the file; stdin itself stays open."""
        self._file.close()

    def __enter__(self) -> Self:
        """Return the source."""
        return self

    def __exit__(self, *exc: object) -> None:
        """Close."""
        self.close()


def _lines(file: BinaryIO) -> Iterator[bytes]:
    while line := file.readline(LONGEST_LINE):
        if len(line) < LONGEST_LINE or line.endswith(b"\n"):
            yield line
            continue
        line = line[:_BUFFER_SIZE]
        while (more := file.readline(_BUFFER_SIZE)) and not more.endswith(b"\n"):
            pass
        yield CutLine(line)


class _Rejoined(io.RawIOBase):
    """A file, and before it what was read of it already."""

    def __init__(self, head: bytes, file: io.BufferedReader) -> None:
        self._head = head
        self._file = file

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._file.fileno()

    def readinto(self, target: Any) -> int:
        given = self._head or self._file.read1(len(target))
        given, self._head = given[: len(target)], given[len(target) :]
        target[: len(given)] = given
        return len(given)

    def close(self) -> None:
        self._file.close()
        super().close()


class _ZstdReader(io.RawIOBase):
    """The content of a zstd file; tells a torn one, as the library's does not."""

    def __init__(self, file: io.BufferedReader, library: Any) -> None:
        self._file = file
        self._library = library
        self._frame = library.ZstdDecompressor().decompressobj()
        self._begun = False  # inside a frame
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        while not self._ready:
            packed = self._packed()
            if not packed:
                return 0
            try:
                self._ready = memoryview(self._frame.decompress(packed))
            except self._library.ZstdError as exc:
                raise EOFError(str(exc)) from exc
        taken = min(len(target), len(self._ready))
        target[:taken] = self._ready[:taken]
        self._ready = self._ready[taken:]
        return taken

    def _packed(self) -> bytes:
        """Return what is to be unpacked next; nothing at the end."""
        packed = b""
        if self._frame.eof:
            packed = self._frame.unused_data
            self._frame = self._library.ZstdDecompressor().decompressobj()
            self._begun = False
        packed = packed or self._file.read1(_BUFFER_SIZE)
        if not packed and self._begun:
            raise EOFError("the last frame is not complete")
        self._begun = True
        return packed


def _gunzip(file: io.BufferedReader, name: str) -> BinaryIO:
    del name
    return cast("BinaryIO", gzip.GzipFile(fileobj=file, mode="rb"))


def _unzstd(file: io.BufferedReader, name: str) -> BinaryIO:
    try:
        library = importlib.import_module("zstandard")
    except ModuleNotFoundError as exc:
        raise InputError(
            f"{name} is compressed with zstd; install sglrun[zstd] to read it",
            path=name,
        ) from exc
    return io.BufferedReader(_ZstdReader(file, library), _BUFFER_SIZE)


_UNPACK: Mapping[bytes, Callable[[io.BufferedReader, str], BinaryIO]] = {
    b"\x1f\x8b": _gunzip,
    b"\x28\xb5\x2f\xfd": _unzstd,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    """What an input may be by mistake, and what makes lines of it."""

    name: str
    command: str


_NOT_READ: Mapping[bytes, _Form] = {
    b"BZh": _Form(name="packed with bzip2", command="bzcat IN"),
    b"\xfd7zXZ\0": _Form(name="packed with xz", command="xzcat IN"),
    b"PK\x03\x04": _Form(name="a zip archive", command="unzip -p IN"),
    b"\xff\xfe": _Form(name="UTF-16", command="iconv -f UTF-16 -t UTF-8 IN"),
    b"\xfe\xff": _Form(name="UTF-16", command="iconv -f UTF-16 -t UTF-8 IN"),
}
