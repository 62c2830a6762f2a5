"""The kernels for attention: which are used, and what they ask of the cells.

Measured and read at build b11549.
"""

import ctypes
from dataclasses import dataclass, replace

from sglrun.backends.local.context_settings import ContextSettings

# What the library is compiled with where its kernels without flash attention add up
# cells in blocks of eight: the products of two halves by eight lanes, and the sum of
# a softmax by eight numbers at a time. With AVX-512 they would be 16.
_EIGHT_LANES = ("AVX2 = 1", "FMA = 1", "F16C = 1", "LLAMAFILE = 1")
_SIXTEEN_LANES = "AVX512 = 1"


@dataclass(frozen=True, slots=True)
class Attention:
    """How attention is computed.

    Attributes:
        is_flash: by the kernel that goes through the cells one by one.
        block: neighbouring cells that are added up first.
        batch: tokens that one pass through the layers takes.
        step: tokens up to which prompts fill a step. What begins beyond only makes the
            others pass over its cells.
        worth: tokens that take as long to pass over one more cell each as one takes to
            be computed; for the model that comes with it, on two cores. Both grow with
            a model's layers.
        crowd: tokens of one more text, times the square of those that are computed at
            once, from where on it slows the others down more than it saves.
    """

    is_flash: bool
    block: int
    batch: int
    step: int
    worth: int
    crowd: int


# It looks at cells of other texts only to pass over them, in 0.44 µs, but takes 6.7 µs
# for one of the own. From 64 tokens on, and for exactly one, it takes another path and
# rounds differently. Multiples of 16 are the fastest below.
FLASH = Attention(
    is_flash=True, block=1, batch=48, step=512, worth=11_000, crowd=150_000
)
# Where nothing has to be exact: by tiles of cells from 64 tokens on, which take 1.9 µs
# for one of the own, and about as long for any other that is filled.
TILES = replace(FLASH, batch=512, step=256, worth=2_000)
# These take 2.5 µs for each cell, whoever holds it: less where texts share most of what
# they see, and as long as not many others are there. A pass takes 22 ms beside its
# tokens: as long as 9,000 cells of one token. Flash takes all that may run at once.
BLOCKS = Attention(is_flash=False, block=8, batch=64, step=64, worth=2_000, crowd=9_000)
# From so many tokens of a prefix on these are faster: about as fast from 500 on where
# rows write a dozen tokens each, not before a thousand where they write a hundred.
_LONG_PREFIX = 1024
_LONG_TO_SCORE = 256  # where no row writes any


def choose_attention(
    library: ctypes.CDLL,
    settings: ContextSettings,
    prefix: int = 0,
    *,
    only_scored: bool = False,
) -> Attention:
    """Return the way that is as exact as *settings* ask, and the fastest.

    Args:
        library: the engine's.
        settings: of the context.
        prefix: tokens that most prompts begin with.
        only_scored: nothing is generated after them.
    """
    if not settings.exact:
        return replace(TILES, batch=settings.batch)
    if prefix >= (_LONG_TO_SCORE if only_scored else _LONG_PREFIX):
        compiled = library.llama_print_system_info().decode()
        if _SIXTEEN_LANES not in compiled and all(x in compiled for x in _EIGHT_LANES):
            return BLOCKS
    return FLASH


def most_at_once(settings: ContextSettings) -> int:
    """Return the most tokens that one pass through the layers takes."""
    return max(FLASH.batch, BLOCKS.batch) if settings.exact else settings.batch
