"""The context: the KV cache of a model, and the step that computes tokens into it.

Rule: only the engine's thread may touch a context.
"""

import ctypes
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from sglrun.backends.local.cell_log import CellLog
from sglrun.backends.local.context_settings import (
    EXACT_KERNEL_BATCH,
    OWN_SEQUENCES,
    ContextSettings,
)
from sglrun.backends.local.layout import Batch
from sglrun.backends.local.library import with_reason
from sglrun.backends.local.machine import give_back, usable_processors
from sglrun.backends.local.model import Model
from sglrun.errors import BackendError, ModelError

Logits = NDArray[np.float32]

CACHE_FULL = 1

# Cells are looked through each time that so many more are filled.
_LOOK_AGAIN = 256
# What it takes to move a cell, 45 µs, beside half of passing over one for one token,
# 0.22 µs; for the model that comes with it, on two cores.
_MOVE = 200


@dataclass(frozen=True, slots=True)
class Entry:
    """One token of a step: where it stands and whether its logits are wanted."""

    token: int
    position: int
    sequence: int
    wanted: bool


class Context:
    """A KV cache that sequences share cell by cell.

    Attributes:
        settings: its size.
    """

    def __init__(self, model: Model, size: int, settings: ContextSettings) -> None:
        """Allocate the cache for *model*, whose vocabulary has *size* tokens.

        Raises:
            ModelError: there is no memory for it.
        """
        self.settings = settings
        self._library = library = model.library
        self._vocabulary_size = size
        params = library.llama_context_default_params()
        params.n_ctx = settings.cells
        params.n_batch = settings.batch
        params.n_ubatch = settings.kernel_batch
        params.n_seq_max = settings.sequences + OWN_SEQUENCES
        self._spare, self._keeper = range(settings.sequences, params.n_seq_max)
        # Where layers see a window only, the library fills a cell anew that just one
        # sequence holds and sees no more. With another it stays for who forks there.
        self._keeps_all = model.window > 0
        params.n_threads = params.n_threads_batch = usable_processors()
        # One pool for all sequences, so that a fork shares cells and copies nothing.
        params.kv_unified = True
        params.flash_attn_type = 1
        handle, reason = with_reason(
            partial(library.llama_init_from_model, model.handle, params)
        )
        if handle is None:
            raise ModelError(
                f"no room for {settings.cells:,} tokens (--ctx-size): {reason}"
            )
        self._handle: int = handle
        self._memory: int = library.llama_get_memory(handle)
        # The library has zeroed a row of logits for each sequence; a step uses few.
        logits: int | None = library.llama_get_logits(handle)
        if logits is not None:
            row = size * ctypes.sizeof(ctypes.c_float)
            give_back(logits, row * params.n_seq_max)
        self._batch = _BatchBuffers(settings.batch)
        is_logged = settings.exact or self._keeps_all
        self._log = CellLog(settings.cells) if is_logged else None
        self._is_shifted = False  # cells were moved since the last step
        self._looked_at = 0  # cells that were filled when they were last looked at

    @property
    def room(self) -> int:
        """Tokens that can be computed before ``compact`` is called for."""
        if self._log is None:
            return self.settings.cells
        return self._log.room - 2  # for the tokens that pad a step

    def decode(self, entries: list[Entry]) -> int:
        """Compute one step; return 0, or ``CACHE_FULL`` with nothing changed.

        Waits for the step; other threads run meanwhile.

        Raises:
            RuntimeError: the library refused the step.
        """
        given = entries
        padded = self.settings.exact and len(entries) % EXACT_KERNEL_BATCH == 1
        if padded:
            entries = [*entries, Entry(entries[0].token, 0, self._spare, wanted=False)]
        code: int = self._library.llama_decode(self._handle, self._batch.fill(entries))
        if padded:
            self._remove(self._spare, 0)
        if code not in (0, CACHE_FULL):
            raise RuntimeError(f"llama_decode returned {code}")
        self._is_shifted = self._is_shifted and code != 0
        if self._log is not None and code == 0:
            self._log.append(entry.sequence for entry in given)
            if self._keeps_all:
                self._keep({each.sequence: each.position for each in reversed(given)})
        return code

    def logits(self, index: int) -> Logits:
        """Return the logits of entry *index* of the last step; valid until the next.

        Raises:
            BackendError: they are no numbers.
        """
        address = self._library.llama_get_logits_ith(self._handle, index)
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
        if self._log is not None:
            self._log.share(source, target, length)
        self._copy(source, target, 0, length)

    def truncate(self, sequence: int, length: int) -> None:
        """Let go of the cells of *sequence* from position *length* on."""
        if self._log is None:
            self._remove(sequence, length)
        elif self._log.cut(sequence, length):
            # Filled they stay, or the next tokens would lie before those they follow.
            self._copy(sequence, self._keeper, length, -1)
            self._remove(sequence, length)
            if self._log.is_empty:
                self.compact()

    @property
    def can_append(self) -> bool:
        """Whether ``append`` works for this model."""
        can_shift = self._library.llama_memory_can_shift(self._memory)
        return bool(can_shift) and not self._keeps_all

    def append(self, source: int, target: int, span: range, shift: int) -> bool:
        """Let *target* go on with a copy of the cells of *source* at *span*.

        The copy stands *shift* positions later, where *target* ends. Returns whether
        there was room.
        """
        library, handle, spare = self._library, self._handle, self._spare
        self._copy(source, spare, span.start, span.stop)
        size = library.llama_state_seq_get_size(handle, spare)
        cells = np.empty(size, np.uint8)
        library.llama_state_seq_get_data(handle, cells.ctypes.data, size, spare)
        self._remove(spare, 0)
        if not library.llama_state_seq_set_data(handle, cells.ctypes.data, size, spare):
            return False
        library.llama_memory_seq_add(self._memory, spare, span.start, span.stop, shift)
        self._copy(spare, target, span.start + shift, span.stop + shift)
        self._remove(spare, 0)
        if self._log is not None:
            self._log.append(target for _ in span)
        self._is_shifted = self._is_shifted or shift != 0
        return True

    def tidy(self) -> None:
        """Call ``compact`` where passing over cells that were let go of takes longer.

        With each token computed that takes longer, and about as many are let go of.
        """
        log = self._log
        if log is None or log.filled < self._looked_at + _LOOK_AGAIN:
            return
        self._looked_at = log.filled
        held = log.held()
        if (log.filled - held) ** 2 > _MOVE * held:
            self.compact()

    def compact(self) -> None:
        """Free the cells that were let go of; logits are not valid afterwards.

        Holds a copy of the cells that are needed while it lasts.
        """
        if self._log is None:
            return
        if self._is_shifted:  # cells are turned to their place by the next step
            self.decode([Entry(0, 0, self._spare, wanted=False)])
            self.truncate(self._spare, 0)
        self._remove(self._keeper, 0)
        self._looked_at = 0
        if self._log.lay_anew():
            library, handle = self._library, self._handle
            size = library.llama_state_get_size(handle)
            kept = np.empty(size, np.uint8)
            library.llama_state_get_data(handle, kept.ctypes.data, size)
            if library.llama_state_set_data(handle, kept.ctypes.data, size) != size:
                raise RuntimeError("llama_state_set_data could not restore the cells")
        if self._keeps_all:
            self._keep(dict.fromkeys(self._log.sequences, 0))

    def _keep(self, starts: Mapping[int, int]) -> None:
        """Let the keeper hold too what sequences hold from where *starts* says."""
        for sequence, start in starts.items():
            self._copy(sequence, self._keeper, start, -1)

    def _copy(self, source: int, target: int, start: int, end: int) -> None:
        self._library.llama_memory_seq_cp(self._memory, source, target, start, end)

    def _remove(self, sequence: int, start: int) -> None:
        self._library.llama_memory_seq_rm(self._memory, sequence, start, -1)

    def close(self) -> None:
        """Free the cache."""
        self._library.llama_free(self._handle)


class _BatchBuffers:
    """The arrays that a step is handed to the library in."""

    def __init__(self, size: int) -> None:
        self._tokens = np.zeros(size, np.int32)
        self._positions = np.zeros(size, np.int32)
        self._counts = np.ones(size, np.int32)
        self._sequences = np.zeros(size, np.int32)
        self._wanted = np.zeros(size, np.int8)
        self._addresses = (
            self._sequences.ctypes.data
            + np.arange(size, dtype=np.uintp) * self._sequences.itemsize
        ).astype(np.uintp)

    def fill(self, entries: Iterable[Entry]) -> Batch:
        count = 0
        for at, entry in enumerate(entries):
            count = at + 1
            self._tokens[at] = entry.token
            self._positions[at] = entry.position
            self._sequences[at] = entry.sequence
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
