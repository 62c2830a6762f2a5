"""Compositions: joined branches as tokens."""

import pytest

from sglrun.backends.local.composition import TokenJoin, compose
from sglrun.backends.local.radix import Tokens
from sglrun.lang.prompt import Join, Prompt

SIZE = 256


def encode(text: str) -> Tokens:
    """Return a token for each character."""
    return tuple(map(ord, text))


def composed(prompt: Prompt) -> tuple[Tokens, tuple[TokenJoin, ...]]:
    return compose(prompt, size=SIZE, encode=encode, encode_prompt=encode)


def shifted(text: str, branch: int) -> Tokens:
    return tuple(token + branch * SIZE for token in encode(text))


def test_branches_are_told_apart_from_the_same_text() -> None:
    """A branch that has not seen those before it stands as other tokens."""
    prompt = Prompt(text="PaabbcQ", joins=(Join(1, (3, 5, 6)),))
    tokens, joins = composed(prompt)
    whole = encode("Paa") + shifted("bb", 1) + shifted("c", 2)

    assert tokens == whole + encode("Q")
    assert joins == (
        TokenJoin(encode("P"), (encode("aa"), encode("bb"), encode("c")), whole),
    )


def test_the_last_token_is_read_anew() -> None:
    """A prompt that ends with a branch has something left to compute."""
    tokens, _ = composed(Prompt(text="Pab", joins=(Join(1, (2, 3)),)))

    assert tokens == encode("Pab")


def test_a_later_join_goes_on_from_the_one_before() -> None:
    """What a second join was forked from is what the first gave."""
    prompt = Prompt(text="PabMcdQ", joins=(Join(1, (2, 3)), Join(4, (5, 6))))
    tokens, (first, second) = composed(prompt)

    assert second.base == first.whole + encode("M")
    assert second.known == len(first.whole)
    assert tokens == second.base + encode("c") + shifted("d", 1) + encode("Q")


@pytest.mark.parametrize(
    ("ends", "branches"),
    [
        ((1, 3, 3, 5), ("aa", "bb")),
        ((3, 5, 5), ("aa", "bb")),
        ((1, 1, 3, 5), ("aa", "bb")),
        ((1, 5), ()),
        ((5, 5, 5), ()),
    ],
)
def test_a_branch_that_says_nothing_is_none(
    ends: tuple[int, ...], branches: tuple[str, ...]
) -> None:
    """What is left is joined, and one that is left alone is read as any text."""
    tokens, joins = composed(Prompt(text="PaabbQ", joins=(Join(1, ends),)))

    assert [join.branches for join in joins] == [tuple(map(encode, branches))] * bool(
        branches
    )
    assert tokens == (joins[0].whole if joins else encode("Paabb")) + encode("Q")


def test_a_join_of_nothing_leaves_the_one_before() -> None:
    """A second join right after the first, of branches that say nothing, is none."""
    prompt = Prompt(text="PaabbQ", joins=(Join(1, (3, 5)), Join(5, (5, 5))))
    tokens, joins = composed(prompt)

    assert len(joins) == 1
    assert tokens == joins[0].whole + encode("Q")
