"""The step: the tokens that are computed at once, as the library is handed them."""

import ctypes
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sglrun.backends.local.layout import Batch


@dataclass(frozen=True, slots=True)
class Entry:
    """One token of a step: where it stands and whether its logits are wanted."""

    token: int
    position: int
    sequence: int
    wanted: bool


class StepBuffers:
    """The arrays that a step is handed to the library in."""

    def __init__(self, size: int, shadow: int) -> None:
        """Make room for *size* tokens.

        Each goes into its sequence, and into the one that stands *shadow* beyond it.
        """
        self._shadow = shadow
        self._tokens = np.zeros(size, np.int32)
        self._positions = np.zeros(size, np.int32)
        self._counts = np.full(size, 2 if shadow else 1, np.int32)
        self._sequences = np.zeros((size, 2), np.int32)
        self._wanted = np.zeros(size, np.int8)
        self._addresses = (
            self._sequences.ctypes.data
            + np.arange(size, dtype=np.uintp) * self._sequences.strides[0]
        ).astype(np.uintp)

    def fill(self, entries: Iterable[Entry]) -> Batch:
        """Return *entries* as the library reads them; valid until the next call."""
        count = 0
        for at, entry in enumerate(entries):
            count = at + 1
            self._tokens[at] = entry.token
            self._positions[at] = entry.position
            self._sequences[at] = entry.sequence, entry.sequence + self._shadow
            self._wanted[at] = entry.wanted
        return Batch(
            n_tokens=count,
            token=_address(self._tokens, ctypes.c_int32),
            embd=None,
            pos=_address(self._positions, ctypes.c_int32),
            n_seq_id=_address(self._counts, ctypes.c_int32),
            seq_id=_address(self._addresses, ctypes.POINTER(ctypes.c_int32)),
            logits=_address(self._wanted, ctypes.c_int8),
        )


def _address(array: NDArray[np.generic], kind: type) -> object:
    return ctypes.cast(array.ctypes.data, ctypes.POINTER(kind))
