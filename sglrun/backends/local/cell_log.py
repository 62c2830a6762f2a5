"""The log of cells: which cell of the KV cache each token of a sequence lies in.

Attention adds up the cells of a sequence in the order in which they lie, and floating
point rounds by order. So that the same text always gives the same logits, every token
must lie behind those before it, whatever was let go of in between. Cells are therefore
handed out upwards only, those that are let go of stay filled, and once the end is
reached all that is still needed is laid anew from the beginning, in the same order.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray


class CellLog:
    """The cells that were handed out since they were last laid anew.

    Attributes:
        filled: their number.
    """

    def __init__(self, cells: int) -> None:
        """Begin with none of *cells* handed out."""
        self._cells = cells
        self._held: dict[int, list[int]] = {}
        self.filled = 0

    @property
    def is_empty(self) -> bool:
        """Whether no sequence holds a cell."""
        return not self._held

    @property
    def sequences(self) -> tuple[int, ...]:
        """Those that hold cells."""
        return tuple(self._held)

    @property
    def room(self) -> int:
        """Cells that can still be handed out."""
        return self._cells - self.filled

    def append(self, sequences: Iterable[int]) -> None:
        """Hand out one cell to each of *sequences*."""
        for sequence in sequences:
            self._held.setdefault(sequence, []).append(self.filled)
            self.filled += 1

    def share(self, source: int, target: int, length: int) -> None:
        """Let *target*, which holds none, hold the first *length* cells of *source*."""
        self._held[target] = self._held[source][:length]

    def cut(self, sequence: int, length: int) -> bool:
        """Let *sequence* hold its first *length* cells; return whether it had more."""
        held = self._held.get(sequence, [])
        had_more = len(held) > length
        del held[length:]
        if not held:
            self._held.pop(sequence, None)
        return had_more

    def held(self) -> int:
        """Return how many cells are held."""
        return int(self._kept().sum())

    def lay_anew(self) -> bool:
        """Count only cells that are held, moved down; return whether any must move."""
        kept = self._kept()
        number = np.cumsum(kept) - 1
        count = int(number[-1]) + 1
        moves = not bool(kept[:count].all())
        if moves:
            self._held = {
                key: number[held].tolist() for key, held in self._held.items()
            }
        self.filled = count
        return moves

    def _kept(self) -> NDArray[np.bool_]:
        kept = np.zeros(self._cells, np.bool_)
        for held in self._held.values():
            kept[held] = True
        return kept
