"""The GGUF format: a model file's metadata and tensors, read and written.

Metadata is carried over as bytes; only its keys, kinds and the values that are asked
for are understood. The layout is that of version 3, little-endian.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import BinaryIO

from sglrun.errors import ModelError

MAGIC = b"GGUF"
VERSION = 3
DEFAULT_ALIGNMENT = 32

# The numbers of GGUF's kinds of value, and how each simple one is packed.
UINT32 = 4
STRING = 8
ARRAY = 9
_PACKED = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    UINT32: "<I",
    5: "<i",
    6: "<f",
    7: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}
_WHOLE = {0, 1, 2, 3, UINT32, 5, 10, 11}


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the metadata: its key, its kind and its value's bytes."""

    key: str
    kind: int
    value: bytes


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor: its name, its size (innermost first), its type, where its data is."""

    name: str
    shape: tuple[int, ...]
    kind: int
    offset: int


@dataclass(frozen=True, slots=True)
class Header:
    """What stands before the data of a file.

    Attributes:
        entries: the metadata.
        tensors: the tensors, in their order; offsets count from ``data_start``.
        data_start: where in the file the data begins.
        alignment: what offsets are a multiple of.
    """

    entries: tuple[Entry, ...]
    tensors: tuple[Tensor, ...]
    data_start: int
    alignment: int

    def text(self, key: str) -> str | None:
        """Return the string at *key*, if there is one."""
        for entry in self.entries:
            if entry.key == key and entry.kind == STRING:
                return entry.value[8:].decode("utf-8", "replace")
        return None

    def numbers(self, key: str) -> tuple[int, ...]:
        """Return the whole number at *key* or those of the array; none where absent."""
        for entry in self.entries:
            if entry.key != key:
                continue
            kind, count, value = entry.kind, 1, entry.value
            if kind == ARRAY:
                kind, count = struct.unpack_from("<IQ", value)
                value = value[12:]
            if kind in _WHOLE:
                return struct.unpack(f"<{count}{_PACKED[kind][1]}", value)
        return ()


def read_header(file: BinaryIO) -> Header:
    """Return the header of the GGUF *file*.

    Raises:
        ModelError: it is no GGUF file of a version that is known, or it is cut short.
    """
    try:
        return _Reader(file).header()
    except (
        struct.error,  # what is cut short
        KeyError,
        UnicodeDecodeError,
        OverflowError,  # lengths beyond all sense
        MemoryError,
    ) as exc:
        raise ModelError(f"{file.name} is damaged: {exc!r} in its header") from exc


def write_header(
    file: BinaryIO, entries: Iterable[Entry], tensors: Iterable[Tensor], alignment: int
) -> None:
    """Write a header, padded up to where the data begins."""
    entries, tensors = tuple(entries), tuple(tensors)
    file.write(MAGIC + struct.pack("<IQQ", VERSION, len(tensors), len(entries)))
    file.writelines(
        _text(entry.key) + struct.pack("<I", entry.kind) + entry.value
        for entry in entries
    )
    for tensor in tensors:
        rank = len(tensor.shape)
        file.write(_text(tensor.name) + struct.pack(f"<I{rank}Q", rank, *tensor.shape))
        file.write(struct.pack("<IQ", tensor.kind, tensor.offset))
    file.write(bytes(-file.tell() % alignment))


def _text(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


class _Reader:
    """A reader of one file, from its start."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def header(self) -> Header:
        magic, version = self._file.read(4), self._unpack("<I")
        if magic != MAGIC or version != VERSION:
            raise ModelError(f"{self._file.name} is not a GGUF file of version 3")
        num_tensors, num_entries = self._unpack("<Q"), self._unpack("<Q")
        entries = tuple(self._entry() for _ in range(num_entries))
        tensors = tuple(self._tensor() for _ in range(num_tensors))
        alignment = DEFAULT_ALIGNMENT
        for entry in entries:
            if entry.key == "general.alignment":
                (alignment,) = struct.unpack("<I", entry.value)
        start = self._file.tell()
        return Header(entries, tensors, start + -start % alignment, alignment)

    def _entry(self) -> Entry:
        key, kind = self._string().decode(), self._unpack("<I")
        return Entry(key, kind, self._value(kind))

    def _tensor(self) -> Tensor:
        name, rank = self._string().decode(), self._unpack("<I")
        shape = tuple(self._unpack("<Q") for _ in range(rank))
        return Tensor(name, shape, self._unpack("<I"), self._unpack("<Q"))

    def _value(self, kind: int) -> bytes:
        if kind == STRING:
            data = self._string()
            return struct.pack("<Q", len(data)) + data
        if kind != ARRAY:
            return self._take(struct.calcsize(_PACKED[kind]))
        inner, count = self._unpack("<I"), self._unpack("<Q")
        head = struct.pack("<IQ", inner, count)
        if inner in _PACKED:
            return head + self._take(count * struct.calcsize(_PACKED[inner]))
        if inner == STRING:
            return head + self._texts(count)
        return head + b"".join(self._value(inner) for _ in range(count))

    def _texts(self, count: int) -> bytes:
        """Return the next *count* strings as they stand: a vocabulary, and large."""
        read, length_of = self._file.read, int.from_bytes
        found = bytearray()  # as pieces it takes ten times as much, never given back
        for number in range(count):
            length = read(8)
            if not length:
                raise struct.error(f"{count} strings wanted, {number} there")
            found += length
            found += read(length_of(length, "little"))
        return bytes(found)

    def _string(self) -> bytes:
        return self._take(self._unpack("<Q"))

    def _unpack(self, layout: str) -> int:
        (value,) = struct.unpack(layout, self._take(struct.calcsize(layout)))
        return int(value)

    def _take(self, size: int) -> bytes:
        data = self._file.read(size)
        if len(data) != size:
            raise struct.error(f"{size} bytes wanted, {len(data)} left")
        return data
