"""The state of cells that hold nothing, in the library's own form.

To choose where tokens go, all other cells are kept filled. The library fills cells
without computing anything only where it restores the saved state of a sequence
(``llama_state_seq_set_data``; the form is that of ``llama_kv_cache::state_write`` at
build b11549), so such states are written here.
"""

import struct
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from sglrun.errors import ModelError

State = NDArray[np.uint8]

# A magic number and the sequence.
_START = struct.Struct("<II")
# Of each cache: its streams and cells.
_CACHE = struct.Struct("<II")
# Of each cell: its position, the number of its sequences, and the one; where positions
# of a model have several parts, three more numbers before that.
_CELL = struct.Struct("<iIi")
_PLACED_CELL = struct.Struct("<iIiiii")
# Whether values are transposed, the number of layers, and two kinds of rotation.
_TENSORS = struct.Struct("<IIII")
# Of a layer: its type, and bytes a cell; or bytes of an element, and elements a cell.
_ROWS = struct.Struct("<iQ")
_COLUMNS = struct.Struct("<iII")


class EmptyCells:
    """What is the same in all such states of a context."""

    def __init__(self, sample: State, sequence: int) -> None:
        """Learn the form from *sample*: the state of *sequence*, which has one cell.

        Raises:
            ModelError: it is of a form that is not known.
        """
        self._sequence = sequence
        self._parts: list[tuple[bytes, int]] = []  # what is written, and bytes a cell
        self._caches: list[int] = []  # the part that each cache's cells stand before
        self._start = sample[: _START.size].tobytes()
        try:
            self._read(sample.tobytes())
        except (struct.error, ValueError) as exc:
            raise ModelError(
                "the model keeps what it reads in a form that cannot be shared: give "
                "another model, or a server that runs it with --url"
            ) from exc

    def state(self, positions: Iterable[int]) -> State:
        """Return the state of cells that stand at *positions*, all of them zero."""
        at = np.fromiter(positions, np.int32)
        cells = np.tile(self._cell, (len(at), 1))
        cells[:, 0] = at
        size = len(self._start) + len(self._caches) * (_CACHE.size + cells.nbytes)
        size += sum(len(header) + each * len(at) for header, each in self._parts)
        state = np.zeros(size, np.uint8)
        written = 0

        def write(data: bytes) -> None:
            nonlocal written
            state[written : written + len(data)] = np.frombuffer(data, np.uint8)
            written += len(data)

        write(self._start)
        for number, (header, each) in enumerate(self._parts):
            if number in self._caches:
                write(_CACHE.pack(1, len(at)))
                write(cells.tobytes())
            write(header)
            written += each * len(at)
        return state

    def _read(self, sample: bytes) -> None:
        at = _START.size
        while at < len(sample):
            self._caches.append(len(self._parts))
            if _CACHE.unpack_from(sample, at) != (1, 1):
                raise ValueError
            at += _CACHE.size
            plain = _CELL.unpack_from(sample, at)[1:] == (1, self._sequence)
            cell = _CELL if plain else _PLACED_CELL
            self._cell = np.frombuffer(sample, np.int32, cell.size // 4, at)
            if self._cell[1] != 1 or self._cell[-1] != self._sequence:
                raise ValueError
            at = self._read_tensors(sample, at + cell.size)
        if at != len(sample):
            raise ValueError

    def _read_tensors(self, sample: bytes, at: int) -> int:
        is_transposed, layers, *_ = _TENSORS.unpack_from(sample, at)
        before = sample[at : at + _TENSORS.size]
        at += _TENSORS.size
        for number in range(2 * layers):
            if number == layers and at == len(sample):
                break  # keys alone
            if number >= layers and is_transposed:
                form = _COLUMNS
                _, each, count = form.unpack_from(sample, at)
                each *= count
            else:
                form = _ROWS
                _, each = form.unpack_from(sample, at)
            if at + form.size + each > len(sample):
                raise ValueError
            self._parts.append((before + sample[at : at + form.size], each))
            before = b""
            at += form.size + each
        return at
