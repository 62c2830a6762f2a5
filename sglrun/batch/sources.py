"""Sources: the bytes of an input, line by line, whatever they are packed in.

Rule: the only module that opens inputs. Nothing is read ahead of the line that is asked
for, but what one read of a file or pipe gives.
"""

import gzip
import importlib
import io
import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, BinaryIO, Self, cast

from sglrun.errors import InputError

STDIN = "-"

_STDIN_FD = 0
_BUFFER_SIZE = 1 << 16
_BOM = b"\xef\xbb\xbf"


class TornInputError(InputError):
    """A compressed input that breaks off or is damaged; what came before is good."""


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

    @property
    def identity(self) -> tuple[int, int]:
        """The device and the file number, by which any path or link is told."""
        status = os.fstat(self._file.fileno())
        return status.st_dev, status.st_ino

    def __iter__(self) -> Iterator[bytes]:
        r"""Iterate over the lines, split at ``\n`` alone; a byte order mark is cut.

        Raises:
            TornInputError: a compressed input breaks off or is damaged.
            InputError: the system cannot read on.
        """
        number = 0
        try:
            for number, line in enumerate(self._unpacked(), 1):
                yield line.removeprefix(_BOM) if number == 1 else line
        except (EOFError, zlib.error, gzip.BadGzipFile) as exc:
            raise TornInputError(
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
        head = self._file.peek(4)
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
