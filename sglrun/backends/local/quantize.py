"""The conversion of weights from Q4_1 to Q8_0, which the engine computes faster.

Q4_1 holds 32 weights as 4-bit steps between a minimum and a maximum; Q8_0 holds them as
8-bit multiples of one scale. The engine has fast kernels for the second alone.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from sglrun.backends.local import gguf
from sglrun.errors import ModelError

F32, F16, Q4_1, Q8_0 = 0, 1, 3, 8
_FILE_TYPE_Q8_0 = 7
_WEIGHTS = 32  # in a block
_LARGEST = 127  # step of Q8_0

_Q4_1 = np.dtype([("scale", "<f2"), ("least", "<f2"), ("steps", "u1", _WEIGHTS // 2)])
_Q8_0 = np.dtype([("scale", "<f2"), ("steps", "i1", _WEIGHTS)])

# Read at once: whole blocks, few enough that their weights stay small in memory.
_CHUNK_BYTES = _Q4_1.itemsize * 65536

# Bytes of a block, and the weights in it.
_BLOCKS = {
    F32: (4, 1),
    F16: (2, 1),
    Q4_1: (_Q4_1.itemsize, _WEIGHTS),
    Q8_0: (_Q8_0.itemsize, _WEIGHTS),
    14: (210, 256),  # Q6_K
}


@dataclass(frozen=True, slots=True)
class _Move:
    """A tensor as it is and as it will be."""

    old: gguf.Tensor
    new: gguf.Tensor


def convert(source: Path, target: Path) -> None:
    """Write the model *source* to *target* with its Q4_1 weights as Q8_0.

    Tensors of other types are carried over as they are. Takes some seconds.

    Raises:
        ModelError: *source* is no GGUF file, or holds types that are not known.
        OSError: *target* cannot be written.
    """
    with source.open("rb") as old, target.open("wb") as new:
        header = gguf.read_header(old)
        moves = tuple(_moves(header, source))
        entries = [_as_q8(entry) for entry in header.entries]
        tensors = [move.new for move in moves]
        gguf.write_header(new, entries, tensors, header.alignment)
        start = new.tell()
        for move in moves:
            new.write(bytes(start + move.new.offset - new.tell()))
            _move(old, new, header.data_start, move)


def q8_0(blocks: NDArray[np.void]) -> NDArray[np.void]:
    """Return blocks of Q4_1 as blocks of Q8_0."""
    halves = blocks["steps"]
    steps = np.concatenate([halves & 0xF, halves >> 4], axis=1).astype(np.float32)
    scale = blocks["scale"].astype(np.float32)[:, None]
    weights = steps * scale + blocks["least"].astype(np.float32)[:, None]
    unit = np.abs(weights).max(axis=1, keepdims=True) / _LARGEST
    inverse = np.divide(1, unit, out=np.zeros_like(unit), where=unit > 0)
    result = np.empty(len(blocks), _Q8_0)
    result["scale"] = unit[:, 0]
    result["steps"] = np.rint(weights * inverse)
    return result


def _as_q8(entry: gguf.Entry) -> gguf.Entry:
    if entry.key == "general.file_type":
        return replace(entry, value=struct.pack("<I", _FILE_TYPE_Q8_0))
    return entry


def _moves(header: gguf.Header, source: Path) -> Iterator[_Move]:
    offset = 0
    for old in header.tensors:
        if old.kind not in _BLOCKS:
            raise ModelError(f"{source}: {old.name} has the unknown type {old.kind}")
        kind = Q8_0 if old.kind == Q4_1 else old.kind
        yield _Move(old, replace(old, kind=kind, offset=offset))
        size = _size_bytes(old.shape, kind)
        offset += size + -size % header.alignment


def _size_bytes(shape: tuple[int, ...], kind: int) -> int:
    size, weights = _BLOCKS[kind]
    return prod(shape) // weights * size


def _move(old: BinaryIO, new: BinaryIO, data_start: int, move: _Move) -> None:
    old.seek(data_start + move.old.offset)
    left = _size_bytes(move.old.shape, move.old.kind)
    while left:
        data = old.read(min(left, _CHUNK_BYTES))
        if not data:
            raise ModelError(f"{old.name} is cut short in {move.old.name}")
        left -= len(data)
        if move.old.kind == Q4_1:
            data = q8_0(np.frombuffer(data, _Q4_1)).tobytes()
        new.write(data)
