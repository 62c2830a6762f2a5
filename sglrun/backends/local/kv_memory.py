"""The KV memory: the cells of a context, as the library lets them be handled.

The library puts tokens into the lowest cells that are free. All below a line are kept
filled, by a sequence of their own where nobody else holds them, and just those that the
next tokens are to go into are freed before.
"""

import ctypes
from collections.abc import Iterable

import numpy as np

from sglrun.backends.local.cell_map import runs
from sglrun.backends.local.empty_cells import EmptyCells, State


class KVMemory:
    """The cells, and the sequences that hold them.

    Attributes:
        spare: a sequence that is empty between calls.
    """

    def __init__(
        self, library: ctypes.CDLL, handle: int, sequences: int, shadow: int
    ) -> None:
        """Take the memory of the context *handle*.

        Args:
            library: the library that the context is of.
            handle: the context.
            sequences: how many others use; it takes the next two for itself.
            shadow: what each sequence's second one stands beyond it; 0 where it has
                none.
        """
        self._library = library
        self._handle = handle
        self._memory: int = library.llama_get_memory(handle)
        self._shadow = shadow
        self.spare, self._filler = sequences, sequences + 1
        self._empty: EmptyCells | None = None
        self._line = 0
        self._gaps: set[int] = set()  # below the line, and held by nobody

    def learn(self, token_state: State) -> None:
        """Learn from the state of one token how cells are filled."""
        self._empty = EmptyCells(token_state, self.spare)

    @property
    def can_shift(self) -> bool:
        """Whether ``shift`` works for this model."""
        return bool(self._library.llama_memory_can_shift(self._memory))

    def _holders(self, sequence: int) -> tuple[int, ...]:
        """Return all that hold what *sequence* does.

        Where layers see a window only, the library fills a cell anew that just one
        sequence holds and sees no more. With another it stays for who forks there.
        """
        return (sequence, sequence + self._shadow) if self._shadow else (sequence,)

    def copy(self, source: int, target: int, start: int = 0, end: int = -1) -> None:
        """Let *target* hold what *source* holds at positions *start* to *end*."""
        for each in self._holders(target):
            self._library.llama_memory_seq_cp(self._memory, source, each, start, end)

    def remove(self, sequence: int, start: int = 0, end: int = -1) -> None:
        """Let *sequence* hold nothing at positions *start* to *end*."""
        for each in self._holders(sequence):
            self._library.llama_memory_seq_rm(self._memory, each, start, end)

    def free(self, cells: Iterable[int]) -> None:
        """Note that nobody holds *cells* any more."""
        self._gaps.update(cell for cell in cells if cell < self._line)

    def open(self, cells: list[int], top: int) -> None:
        """See that the next tokens go into *cells*, in their order.

        *cells* ascend, and nobody holds one; *top* is above all that are held and them.
        """
        if top < self._line:
            self._gaps = {gap for gap in self._gaps if gap < top}
            self.remove(self._filler, top)
            self._line = top
        between = set(range(self._line, top)).difference(cells)
        if between:  # else the library goes upwards from the line by itself
            self._gaps.update(range(self._line, max(between) + 1))
            self._line = max(between) + 1
        self._fill(sorted(self._gaps))
        self._gaps.clear()
        for run in runs([cell for cell in cells if cell < self._line]):
            self.remove(self._filler, run.start, run.stop)
        self._line = top

    def state(self, sequence: int) -> State:
        """Return the state of *sequence*."""
        library, handle = self._library, self._handle
        state = np.empty(library.llama_state_seq_get_size(handle, sequence), np.uint8)
        library.llama_state_seq_get_data(
            handle, state.ctypes.data, state.size, sequence
        )
        return state

    def state_of(self, sequence: int, start: int, end: int) -> State:
        """Return the state of *sequence* at positions *start* to *end*."""
        self.copy(sequence, self.spare, start, end)
        state = self.state(self.spare)
        self.remove(self.spare)
        return state

    def restore(self, state: State) -> None:
        """Let the spare sequence hold *state*, in the cells that are free."""
        done = self._library.llama_state_seq_set_data(
            self._handle, state.ctypes.data, state.size, self.spare
        )
        if done != state.size:
            raise RuntimeError("llama_state_seq_set_data could not fill the cells")

    def shift(self, start: int, end: int, by: int) -> None:
        """Move what the spare sequence holds from *start* to *end* later by *by*.

        It is turned to its place by the next step.
        """
        self._library.llama_memory_seq_add(self._memory, self.spare, start, end, by)

    def close_up(self, between: list[range], gaps: Iterable[int], line: int) -> None:
        """Move all cells down over those *between*, which nobody holds.

        Holds a copy of the others while it lasts. Afterwards they lie below *line*,
        but for *gaps*.
        """
        library, handle = self._library, self._handle
        self._fill(sorted(self._gaps))
        for run in between:
            self.remove(self._filler, run.start, run.stop)
        size = library.llama_state_get_size(handle)
        kept = np.empty(size, np.uint8)
        library.llama_state_get_data(handle, kept.ctypes.data, size)
        if library.llama_state_set_data(handle, kept.ctypes.data, size) != size:
            raise RuntimeError("llama_state_set_data could not restore the cells")
        self.remove(self._filler)
        self._gaps, self._line = set(gaps), line

    def _fill(self, cells: list[int]) -> None:
        """Fill *cells*, which ascend: all that are free below the line."""
        if not cells or self._empty is None:
            return
        self.restore(self._empty.state(cells))
        self.copy(self.spare, self._filler)
        self.remove(self.spare)
