"""The context: the KV cache of a model, and the step that computes tokens into it.

Rule: only the engine's thread may touch a context.
"""

import ctypes
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from math import isfinite
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from sglrun.backends.local.attention import Attention, choose_attention
from sglrun.backends.local.cell_map import CellMap
from sglrun.backends.local.context_settings import (
    MOST_SEQUENCES,
    OWN_SEQUENCES,
    ContextSettings,
)
from sglrun.backends.local.kv_memory import KVMemory
from sglrun.backends.local.library import with_reason
from sglrun.backends.local.machine import give_back, usable_processors
from sglrun.backends.local.model import Model
from sglrun.backends.local.step import Entry, StepBuffers
from sglrun.errors import BackendError, ModelError

Logits = NDArray[np.float32]

Placed = TypeVar("Placed")

CACHE_FULL = 1

# What it takes to move a cell, 45 µs, beside half of what it takes to compute a token,
# for the model that comes with it, on two cores.
_MOVE = 0.018
# Tokens that pad steps, before their cells are let go of.
_MOST_PADS = 16


class Context:
    """A KV cache that sequences share cell by cell.

    Attributes:
        settings: its size.
        attention: how it is computed.
    """

    def __init__(
        self,
        model: Model,
        size: int,
        settings: ContextSettings,
        *,
        attention: Attention | None = None,
    ) -> None:
        """Allocate the cache for *model*, whose vocabulary has *size* tokens.

        Args:
            model: the weights.
            size: tokens of its vocabulary.
            settings: how much is held, and how a step is computed.
            attention: how it is computed; by default as for prompts without a prefix.

        Raises:
            ModelError: there is no memory for it, or the model keeps what it reads in
                a form that cannot be shared.
        """
        self._has_window = model.window > 0
        if self._has_window:
            most = (MOST_SEQUENCES + OWN_SEQUENCES) // 2 - OWN_SEQUENCES
            settings = replace(settings, sequences=min(settings.sequences, most))
        self.settings = settings
        self._library = library = model.library
        self._vocabulary_size = size
        self.attention = attention = attention or choose_attention(library, settings)
        shadow = (settings.sequences + OWN_SEQUENCES) * int(self._has_window)
        params = library.llama_context_default_params()
        params.n_ctx = settings.cells
        params.n_batch = settings.batch
        params.n_ubatch = attention.batch
        params.n_seq_max = settings.sequences + OWN_SEQUENCES + shadow
        params.n_threads = params.n_threads_batch = usable_processors()
        # One pool for all sequences, so that a fork shares cells and copies nothing.
        params.kv_unified = True
        params.flash_attn_type = attention.is_flash
        handle, reason = with_reason(
            partial(library.llama_init_from_model, model.handle, params)
        )
        if handle is None:
            raise ModelError(
                f"no room for {settings.cells:,} tokens (--ctx-size): {reason}"
            )
        self._handle: int | None = handle
        # The library has zeroed a row of logits for each sequence; a step uses few.
        logits: int | None = library.llama_get_logits(handle)
        if logits is not None:
            row = size * ctypes.sizeof(ctypes.c_float)
            give_back(logits, row * params.n_seq_max)
        self._map = CellMap(settings.cells, attention.block)
        self._memory = KVMemory(library, handle, settings.sequences, shadow)
        self._pads = settings.sequences + OWN_SEQUENCES - 1
        self._batch = StepBuffers(params.n_batch, shadow)
        self._indices: list[int] = []  # where the entries of the last step stand in it
        self._is_shifted = False  # cells were moved since the last step
        self._compute([Entry(0, 0, self._memory.spare, wanted=False)])
        sample = self._memory.state(self._memory.spare)
        self._memory.remove(self._memory.spare)
        try:
            self._memory.learn(sample)
        except ModelError:
            self.close()
            raise

    def decode(self, entries: list[Entry]) -> int:
        """Compute one step; return 0, or ``CACHE_FULL`` with nothing changed.

        Waits for the step; other threads run meanwhile.

        Raises:
            RuntimeError: the library refused the step.
        """
        placed = self._find_room(partial(self._place, entries))
        if placed is not None and self._is_sparse():
            self._let_go(placed[0])
            self.compact()
            placed = self._place(entries)
        if placed is None:
            return CACHE_FULL
        padded, cells = placed
        order = np.argsort(cells)
        self._memory.open([cells[at] for at in order], self._map.top)
        self._compute([padded[at] for at in order])
        self._indices = np.argsort(order).tolist()
        if self._map.length(self._pads) >= _MOST_PADS:
            self.truncate(self._pads, 0)
        return 0

    def logits(self, index: int) -> Logits:
        """Return the logits of entry *index* of the last step; valid until the next.

        Raises:
            BackendError: they are no numbers.
        """
        address = self._library.llama_get_logits_ith(self._handle, self._indices[index])
        row = (ctypes.c_float * self._vocabulary_size).from_address(address)
        logits = np.frombuffer(memoryview(row).cast("B"), np.float32)
        if not isfinite(logits[0]):  # each is a sum over the same last layer
            raise BackendError(
                "the model computes no numbers: its file is damaged, or its weights "
                "are too large for half precision"
            )
        return logits

    def fork(self, source: int, target: int, length: int) -> None:
        """Let *target*, which is empty, share the first *length* cells of *source*."""
        self._map.share(source, target, length)
        self._memory.copy(source, target, 0, length)

    def truncate(self, sequence: int, length: int) -> None:
        """Let go of the cells of *sequence* from position *length* on."""
        self._memory.free(self._map.cut(sequence, length))
        self._memory.remove(sequence, length)

    @property
    def can_append(self) -> bool:
        """Whether ``append`` works for this model."""
        return self._memory.can_shift and not self._has_window

    def append(self, source: int, target: int, span: range, shift: int) -> bool:
        """Let *target* go on with a copy of the cells of *source* at *span*.

        The copy stands *shift* positions later, where *target* ends. Returns whether
        there was room.
        """
        memory = self._memory
        if not self._settle():
            return False
        state = memory.state_of(source, span.start, span.stop)
        cells = self._find_room(partial(self._extend, target, len(span)))
        if cells is None:
            return False
        memory.open(cells, self._map.top)
        memory.restore(state)
        memory.shift(span.start, span.stop, shift)
        memory.copy(memory.spare, target)
        memory.remove(memory.spare)
        self._is_shifted = self._is_shifted or shift != 0
        return True

    def compact(self) -> None:
        """Move cells down to where there is room; logits are not valid afterwards.

        Holds a copy of them while it lasts.
        """
        if not self._settle():
            return
        self.truncate(self._pads, 0)
        between = self._map.close_up()
        if between:
            self._memory.close_up(between, self._map.gaps(), self._map.top)

    def _padding(self, count: int) -> list[Entry]:
        """Return *count* tokens for a step that mean nothing to anybody."""
        start = self._map.length(self._pads)
        return [
            Entry(0, start + number, self._pads, wanted=False)
            for number in range(count)
        ]

    def _place(self, entries: list[Entry]) -> tuple[list[Entry], list[int]] | None:
        """Return what to compute for *entries*, and a cell for each, if there is room.

        One token by itself goes another way through the kernels than several, so it is
        given company.
        """
        is_alone = self.settings.exact and len(entries) % self.attention.batch == 1
        padded = [*entries, *self._padding(is_alone)]
        cells: dict[int, Iterator[int]] = {}
        for sequence, count in _counts(padded).items():
            new = self._extend(sequence, count)
            if new is None:
                self._let_go([each for each in padded if each.sequence in cells])
                return None
            cells[sequence] = iter(new)
        return padded, [next(cells[entry.sequence]) for entry in padded]

    def _let_go(self, entries: list[Entry]) -> None:
        """Undo ``_place``."""
        for sequence, count in _counts(entries).items():
            self._map.cut(sequence, self._map.length(sequence) - count)

    def _is_sparse(self) -> bool:
        """Return whether passing over cells that nobody holds takes longer than moving.

        With each token computed that takes longer, and about as many are let go of.
        """
        taken = self._map.taken
        return (self._map.top - taken) ** 2 > _MOVE * self.attention.worth * taken

    def _extend(self, sequence: int, count: int) -> list[int] | None:
        """Return *count* more cells for *sequence*, or ``None`` without room."""
        if self._map.is_blocked(sequence) and not self._move_end(sequence):
            return None
        return self._map.extend(sequence, count)

    def _find_room(self, call: Callable[[], Placed | None]) -> Placed | None:
        """Return what *call* does, once cells have moved if it must be."""
        placed = call()
        if placed is None:
            self.compact()
            placed = call()
        return placed

    def _move_end(self, sequence: int) -> bool:
        """Copy the end of *sequence* to where it can go on, if there is room."""
        cells = self._map.move_end(sequence) if self._settle() else None
        if cells is None:
            return False
        end = self._map.length(sequence)
        start = end - len(cells)
        memory = self._memory
        state = memory.state_of(sequence, start, end)
        memory.remove(sequence, start)
        memory.open(cells, self._map.top)
        memory.restore(state)
        memory.copy(memory.spare, sequence)
        memory.remove(memory.spare)
        return True

    def _settle(self) -> bool:
        """See that cells are turned to their place; return whether they are.

        That takes a step, and a step takes room.
        """
        if not self._is_shifted:
            return True
        entries = self._padding(2)
        cells = self._map.extend(self._pads, len(entries))
        if cells is None:
            return False
        self._memory.open(cells, self._map.top)
        self._compute(entries)
        return True

    def _compute(self, entries: list[Entry]) -> None:
        code = self._library.llama_decode(self._handle, self._batch.fill(entries))
        if code:
            raise RuntimeError(f"llama_decode returned {code}")
        self._is_shifted = False

    def close(self) -> None:
        """Free the cache; once more does nothing."""
        handle, self._handle = self._handle, None
        if handle is not None:
            self._library.llama_free(handle)


def _counts(entries: Iterable[Entry]) -> Counter[int]:
    return Counter(entry.sequence for entry in entries)
