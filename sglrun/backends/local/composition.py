"""A composition: the tokens of a prompt whose branches were joined.

A token of a branch that has not seen the branches before it is another than the same
token read after them: what is computed of it differs. In the tree it therefore stands
as a token of its own, beyond those of the vocabulary, numbered by its branch.
"""

from collections.abc import Callable
from dataclasses import dataclass

from sglrun.backends.local.radix import Tokens
from sglrun.lang.prompt import Prompt

Encode = Callable[[str], Tokens]


@dataclass(frozen=True, slots=True)
class TokenJoin:
    """Branches to be put one after the other.

    Attributes:
        base: the tokens that all were forked from.
        branches: those of each branch, as they are read alone.
        whole: those of base and branches, as they stand in the tree.
        known: tokens of the base up to the end of the join before, which has to be
            there.
    """

    base: Tokens
    branches: tuple[Tokens, ...]
    whole: Tokens
    known: int = 0


def compose(
    prompt: Prompt, *, size: int, encode: Encode, encode_prompt: Encode
) -> tuple[Tokens, tuple[TokenJoin, ...]]:
    """Return the tokens of *prompt*, for a vocabulary of *size*, and its joins.

    The tokens are those of the tree; the last is of the vocabulary. The borders
    between branches are borders of tokens. A branch that says nothing is none.
    """
    text = prompt.text
    tokens = encode_prompt(text[: prompt.joins[0].start])
    at = prompt.joins[0].start
    joins: list[TokenJoin] = []
    for join in prompt.joins:
        base = tokens + (encode(text[at : join.start]) if at < join.start else ())
        starts = (join.start, *join.ends[:-1])
        spans = zip(starts, join.ends, strict=True)
        encoded = (encode(text[begin:end]) for begin, end in spans)
        branches = tuple(branch for branch in encoded if branch)
        tokens = base
        for number, branch in enumerate(branches):
            tokens += tuple(token + number * size for token in branch)
        known = len(joins[-1].whole) if joins else 0
        if len(branches) > 1:  # one alone is read as any text
            joins.append(TokenJoin(base, branches, tokens, known))
        at = join.ends[-1]
    rest = encode(text[at:]) if at < len(text) else ()
    if not rest:  # the last token is read anew, for what follows it
        tokens, rest = tokens[:-1], (tokens[-1] % size,)
    return tokens + rest, tuple(joins)
