"""The cell map: which cell of the KV cache each token of a sequence lies in.

Attention adds up the cells of a sequence in the order in which they lie, and some
kernels add up a block of neighbours before they add it to the others; floating point
rounds by order and by block. So that the same text always gives the same logits, every
token lies behind those before it, and within its block at the place that its position
has. Sequences share cells; who goes on in a block that another has gone on in gets the
beginning of that block once more.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class CellMap:
    """The cells that sequences hold."""

    def __init__(self, cells: int, block: int) -> None:
        """Begin with *cells* that nobody holds, in blocks of *block*."""
        self._block = block
        self._uses = np.zeros(cells // block * block, np.int32)
        self._held: dict[int, list[int]] = {}

    @property
    def top(self) -> int:
        """The first cell above all that are held."""
        used = np.flatnonzero(self._uses)
        return int(used[-1]) + 1 if used.size else 0

    @property
    def taken(self) -> int:
        """Cells in blocks of which any is held."""
        return int(self._taken_blocks().sum()) * self._block

    def length(self, sequence: int) -> int:
        """Return how many tokens *sequence* has."""
        return len(self._held.get(sequence, ()))

    def is_blocked(self, sequence: int) -> bool:
        """Return whether the next token's cell is another's, so that it has to move."""
        held = self._held.get(sequence)
        if not held or len(held) % self._block == 0:
            return False
        return bool(self._uses[held[-1] + 1])

    def extend(self, sequence: int, count: int) -> list[int] | None:
        """Return *count* more cells for *sequence*, or ``None`` where there is no room.

        It must not be blocked.
        """
        held = self._held.get(sequence, [])
        inside = min(-len(held) % self._block, count)
        last = held[-1] if held else -1
        new = list(range(last + 1, last + 1 + inside))
        wanted = -(-(count - inside) // self._block)
        blocks = self._free_blocks(last // self._block + 1, wanted)
        if blocks is None:
            return None
        for start in blocks:
            left = min(self._block, count - len(new))
            new.extend(range(start, start + left))
        if new:
            self._uses[new] += 1
            self._held[sequence] = held + new
        return new

    def move_end(self, sequence: int) -> list[int] | None:
        """Give *sequence* other cells for its tokens in the last block; return them.

        ``None`` where there is no room. The old ones are another's too.
        """
        held = self._held[sequence]
        start = len(held) // self._block * self._block
        before = held[start - 1] if start else -1
        blocks = self._free_blocks(before // self._block + 1, 1)
        if blocks is None:
            return None
        new = list(range(blocks[0], blocks[0] + len(held) - start))
        self._uses[held[start:]] -= 1
        self._uses[new] += 1
        held[start:] = new
        return new

    def share(self, source: int, target: int, length: int) -> None:
        """Let *target*, which holds none, hold the first *length* cells of *source*."""
        shared = self._held[source][:length]
        if shared:
            self._uses[shared] += 1
            self._held[target] = shared

    def cut(self, sequence: int, length: int) -> list[int]:
        """Let *sequence* hold its first *length* cells; return those nobody holds now.

        In ascending order.
        """
        held = self._held.get(sequence, [])
        gone = held[length:]
        del held[length:]
        if not held:
            self._held.pop(sequence, None)
        if not gone:
            return []
        self._uses[gone] -= 1
        return [cell for cell in gone if not self._uses[cell]]

    def gaps(self) -> list[int]:
        """Return the cells below the top that nobody holds."""
        found: list[int] = np.flatnonzero(self._uses[: self.top] == 0).tolist()
        return found

    def close_up(self) -> list[range]:
        """Move all blocks down that any cell is held of; return the cells between them.

        Those are given as they were numbered before. None are returned where nothing
        has to move.
        """
        taken = self._taken_blocks()[: -(-self.top // self._block)]
        between = np.flatnonzero(np.repeat(~taken, self._block))
        if between.size:
            shift = (np.cumsum(taken) - 1 - np.arange(len(taken))) * self._block
            moved = np.repeat(shift, self._block)
            kept = self._uses[: len(moved)][np.repeat(taken, self._block)]
            self._uses[:] = 0
            self._uses[: len(kept)] = kept
            for sequence, held in self._held.items():
                self._held[sequence] = (np.array(held) + moved[held]).tolist()
        return runs(between.tolist())

    def _taken_blocks(self) -> NDArray[np.bool_]:
        taken: NDArray[np.bool_] = self._uses.reshape(-1, self._block).max(axis=1) > 0
        return taken

    def _free_blocks(self, first: int, count: int) -> list[int] | None:
        """Return where the lowest *count* free blocks from number *first* on begin."""
        if not count:
            return []
        free = np.flatnonzero(~self._taken_blocks()[first:])[:count]
        if len(free) < count:
            return None
        starts: list[int] = ((free + first) * self._block).tolist()
        return starts


def runs(cells: Sequence[int]) -> list[range]:
    """Return *cells*, which ascend, as ranges of neighbours."""
    found: list[range] = []
    for cell in cells:
        if found and found[-1].stop == cell:
            found[-1] = range(found[-1].start, cell + 1)
        else:
            found.append(range(cell, cell + 1))
    return found
