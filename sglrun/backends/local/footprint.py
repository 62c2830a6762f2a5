"""The footprint: the memory that a model takes, told from its file alone."""

import logging
import re
import warnings
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice, repeat
from pathlib import Path

from sglrun.backends.local.attention import BLOCKS, most_at_once
from sglrun.backends.local.context_settings import OWN_SEQUENCES, ContextSettings
from sglrun.backends.local.gguf import Header, read_header
from sglrun.backends.local.machine import usable_memory
from sglrun.errors import ModelError

_log = logging.getLogger("sglrun.local")

# Of each number that is kept: F16 in the cache, F32 in logits and attention's scores.
_CACHED_BYTES, _LOGIT_BYTES, _SCORE_BYTES = 2, 4, 4
# A large model comes in several files, whose names end alike.
_PART = re.compile(r"-\d{5}-of-(\d{5})\.gguf$")
# Context sizes are advised in steps of so many tokens.
_STEP = 1024
_MB, _GB = 1e6, 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """What a model takes, in bytes.

    Attributes:
        weights: its files, which are mapped: what the system drops it reads again.
        token: of the KV cache, for each token that it holds.
        logits: of the scores of one token's successors.
        scores: of one token's attention to another, in the heads of a layer.
    """

    weights: int
    token: int
    logits: int
    scores: int

    def working(self, settings: ContextSettings) -> int:
        """Return what is taken beside the weights, and cannot be dropped."""
        rows = settings.sequences + OWN_SEQUENCES + most_at_once(settings)
        # Without flash attention, the scores of a pass are all written down.
        each = self.token + (self.scores * BLOCKS.batch if settings.exact else 0)
        return each * settings.cells + self.logits * rows


def read_footprint(path: Path) -> Footprint:
    """Return what the model at *path* takes.

    Of a model whose cache is of a special kind it is an estimate, and a high one.

    Raises:
        ModelError: the file is no GGUF file, or is damaged.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        header = read_header(file)
    sizes = (part.stat().st_size for part in _parts(path))
    return Footprint(
        weights=sum(sizes),
        token=_cached_numbers(header) * _CACHED_BYTES,
        logits=_vocabulary_size(header) * _LOGIT_BYTES,
        scores=max(_heads(header)) * _SCORE_BYTES,
    )


def check_memory(
    path: Path,
    settings: ContextSettings,
    usable: Callable[[], int | None] = usable_memory,
) -> None:
    """Log what the model at *path* takes, and see that it is there.

    Warns where its weights would have to be read again and again. A file that cannot
    be read is for the engine to refuse.

    Args:
        path: the model's file.
        settings: how much is held beside it.
        usable: tells the bytes that may be taken, if they are known.

    Raises:
        ModelError: what is held beside the weights does not fit into memory.
    """
    try:
        footprint = read_footprint(path)
    except (ModelError, OSError):
        return
    left = usable()
    takes = (
        f"{path.name} takes {size_text(footprint.weights)} for its weights and "
        f"{size_text(footprint.working(settings))} to hold {settings.cells:,} tokens"
    )
    if left is not None:
        takes = f"{takes}; {size_text(left)} of memory are free"
        if footprint.working(settings) > left:
            raise ModelError(f"{takes}: {_advice(footprint, settings, left)}")
        if footprint.weights + footprint.working(settings) > left:
            warnings.warn(
                f"{takes}: weights that do not fit are read from the disk again for "
                "each step, which is slow",
                stacklevel=2,
            )
    _log.info("%s", takes)


def size_text(size: int) -> str:
    """Return *size*, in bytes, as a person reads it."""
    return f"{size / _GB:.1f} GB" if size >= _GB else f"{size / _MB:.0f} MB"


def _advice(footprint: Footprint, settings: ContextSettings, left: int) -> str:
    """Return what to do where *settings* do not fit into what is *left*."""
    sizes = range(_STEP, settings.cells + 1, _STEP)
    fitting = bisect_right(
        sizes, left, key=lambda cells: footprint.working(settings.resized(cells))
    )
    if not fitting:
        return "free some, or take a smaller model"
    return f"--ctx-size {sizes[fitting - 1]} fits"


def _parts(path: Path) -> tuple[Path, ...]:
    found = _PART.search(path.name)
    if found is None:
        return (path,)
    stem = path.name[: found.start()]
    named = tuple(path.parent.glob(f"{stem}-*-of-{found[1]}.gguf"))
    return named or (path,)


def _cached_numbers(header: Header) -> int:
    """Return how many numbers the cache keeps of a token, over all layers.

    The keys are those of the GGUF specification; where a model's heads differ by
    layer, there is an array.
    """
    kind = header.text("general.architecture")
    layers = _number(header, f"{kind}.block_count")
    heads = _heads(header)
    width = _number(header, f"{kind}.embedding_length") // max(1, *heads)
    key = _number(header, f"{kind}.attention.key_length", width)
    value = _number(header, f"{kind}.attention.value_length", width)
    kept = header.numbers(f"{kind}.attention.head_count_kv") or heads
    per_layer = kept if len(kept) > 1 else repeat(kept[0])
    return sum(islice(per_layer, layers)) * (key + value)


def _heads(header: Header) -> tuple[int, ...]:
    kind = header.text("general.architecture")
    return header.numbers(f"{kind}.attention.head_count") or (1,)


def _vocabulary_size(header: Header) -> int:
    for tensor in header.tensors:
        if tensor.name == "token_embd.weight" and tensor.shape:
            return tensor.shape[-1]
    return 0


def _number(header: Header, key: str, absent: int = 0) -> int:
    return next(iter(header.numbers(key)), absent)
