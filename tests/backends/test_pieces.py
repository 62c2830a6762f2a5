"""Pieces of streams: prefixes dropped, stop strings held back."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglrun.backends.pieces import after_prefix, before_stop, doubtful, until_stop

TEXTS = st.text("ab\n", max_size=12)


@given(TEXTS, TEXTS, st.lists(st.integers(0, 12), max_size=4))
def test_a_prefix_is_dropped_wherever_pieces_end(
    prefix: str, text: str, cuts: list[int]
) -> None:
    """What is told is the text without the prefix, however it is cut."""
    told: list[str] = []
    tell = after_prefix(prefix, told.append)
    for piece in pieces(prefix + text, cuts):
        tell(piece)

    assert "".join(told) == text


@given(TEXTS, st.lists(st.text("ab\n", min_size=1, max_size=3), max_size=3), st.data())
def test_nothing_is_told_from_a_stop_string_on(
    text: str, stops: list[str], data: st.DataObject
) -> None:
    """What is told is the text before the stop string, however it is cut."""
    cuts = data.draw(st.lists(st.integers(0, 12), max_size=4))
    told: list[str] = []
    tell = until_stop(tuple(stops), told.append)
    for piece in pieces(text, cuts):
        tell(piece)
    tell("")

    assert "".join(told) == before_stop(text, stops)[0]


@pytest.mark.parametrize(
    ("text", "count"), [("ab", 0), ("a\n", 1), ("a\n\n", 1), ("", 0), ("E", 1)]
)
def test_only_what_may_be_a_stop_is_held(text: str, count: int) -> None:
    """The end of a text that begins a stop string is doubtful, no more."""
    assert doubtful(text, ("\nX", "END")) == count


def pieces(text: str, cuts: list[int]) -> list[str]:
    marks = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    return [text[a:b] for a, b in itertools.pairwise(marks) if a < b]
