"""Seeds: how the seed of a run becomes one for each thing that is drawn by it.

Rule: what is the same in every run of a program makes a seed, and nothing else does, so
that a resume draws what was drawn before, whatever runs beside it.
"""

import json
from hashlib import blake2b

from sglrun.backends.base import SelectRequest

_LARGEST = (1 << 31) - 1  # of the integers that every server takes for a seed


def branch_seed(seed: int, branch: tuple[int, ...]) -> int:
    """Return *seed* as *branch* is to use it; outside of branches it stays as it is.

    Branches begin with the same prompt, and would draw the same from the same seed.
    """
    return _mixed(seed, branch) & _LARGEST if branch else seed


def choice_seed(seed: int | None, asked: SelectRequest) -> int | None:
    """Return *seed* as the draw among the options of *asked* is to use it."""
    if seed is None:
        return None
    prompt = asked.prompt
    media = [one.url or blake2b(one.data).hexdigest() for one in prompt.media]
    return _mixed(seed, asked.branch, asked.choices, prompt.text, media)


def _mixed(*parts: object) -> int:
    text = json.dumps(parts)
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")
