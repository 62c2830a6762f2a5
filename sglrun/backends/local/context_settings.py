"""The settings of a context: how much it holds, and how a step is computed."""

from dataclasses import dataclass, replace

from sglrun.backends.base import CTX_SIZE

# Sequences that a context keeps for itself, of the 256 that the library allows.
OWN_SEQUENCES = 3
MOST_SEQUENCES = 256 - OWN_SEQUENCES
# Each sequence may hold one token twice, and there is room for those.
_CELLS_A_SEQUENCE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextSettings:
    """How much is held and how a step is computed.

    Attributes:
        cells: tokens that the KV cache holds, over all sequences.
        sequences: sequences that may share it; at most 253.
        batch: tokens of one step.
        exact: logits are the same to the bit whatever else is in a step, whatever is
            cached and however it came there, for prompts up to the context's length,
            on one machine with one number of threads and weights that are quantized.
            Without it other company is rounded differently, a score by up to a
            hundredth and more after long prompts, and a close call may end
            differently; prompts are read about a quarter faster, and texts written
            as fast.
    """

    cells: int = CTX_SIZE
    sequences: int = MOST_SEQUENCES
    batch: int = 512
    exact: bool = True

    @property
    def tokens(self) -> int:
        """Tokens that may be counted on: each sequence may hold one of them twice."""
        return self.cells - self.sequences

    def resized(self, cells: int) -> "ContextSettings":
        """Return the same for so many *cells*, shared by as many as they are worth."""
        sequences = min(MOST_SEQUENCES, cells // _CELLS_A_SEQUENCE)
        return replace(self, cells=cells, sequences=sequences)
