"""The alignment of options with their prompt: which tokens are the option's own.

An option's first tokens are not those of the option alone: its beginning may melt into
the prompt's last token. So prompt and prompt with option are compared token by token,
and what follows their common beginning is the option's.
"""

from collections.abc import Sequence

from sglrun.errors import BadRequestError


def common_prefix(left: Sequence[int], right: Sequence[int]) -> int:
    """Return how many tokens both begin with."""
    for at, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            return at
    return min(len(left), len(right))


def own_start(prompt: Sequence[int], whole: Sequence[int], choice: str) -> int:
    """Return where in *whole* the tokens of *choice* begin.

    Args:
        prompt: the tokens of the prompt.
        whole: the tokens of the prompt with the option after it.
        choice: the option, for the error.

    Raises:
        BadRequestError: the option adds no token.
    """
    start = common_prefix(prompt, whole)
    if start >= len(whole):
        raise BadRequestError(
            f"the option {choice!r} adds no token to its prompt, so it has no "
            "probability; give it a text of its own"
        )
    return start
