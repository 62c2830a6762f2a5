"""The retelling: the pieces of a text that is written anew, each told once."""

from dataclasses import replace
from secrets import randbits

from sglrun.backends.base import OnText, Request

_SEED_BITS = 63


class Retelling:
    """Tells of the pieces of one text over several attempts to write it.

    Attributes:
        request: the same request with a seed, so that each attempt writes the same.
    """

    def __init__(self, request: Request, on_text: OnText) -> None:
        """Tell *on_text* of what is written for *request*."""
        sampling = request.sampling
        if sampling.seed is None:
            sampling = replace(sampling, seed=randbits(_SEED_BITS))
        self.request = replace(request, sampling=sampling)
        self._on_text = on_text
        self._told = 0

    def anew(self) -> OnText:
        """Return who is to be told of the text from its beginning."""
        written = 0

        def hear(piece: str) -> None:
            nonlocal written
            fresh = piece[max(0, self._told - written) :]
            written += len(piece)
            if fresh:
                self._told = written
                self._on_text(fresh)

        return hear
