"""Marks: found where they are, and told from other text."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sglrun.interpreter.tracing.marks import Marks, find_mark, has_mark
from sglrun.interpreter.tracing.value import Mark, Value

TEXT = st.text(max_size=8)


def value(name: str) -> Value:
    return Value(source="argument", name=name)


@given(st.lists(TEXT, min_size=1, max_size=4))
def test_text_is_split_into_what_it_was_made_of(texts: list[str]) -> None:
    """Constant parts and values come out as they went in, in order."""
    marks = Marks()
    values = [value(f"v{number}") for number in range(len(texts))]
    whole = "".join(
        text + marks.text(each) for text, each in zip(texts, values, strict=True)
    )
    expected: list[Any] = []
    for text, each in zip(texts, values, strict=True):
        expected += [text, Mark(each)] if text else [Mark(each)]

    assert list(marks.fragments(whole)) == expected
    assert marks.first(whole) == values[0]


@given(TEXT)
def test_other_text_has_no_mark(text: str) -> None:
    """What nobody marked is constant."""
    assert find_mark(text) == -1
    assert not has_mark(text)
    assert Marks().fragments(text) == ((text,) if text else ())


@given(st.text("ab .", max_size=6))
def test_a_mark_is_found_where_it_begins(text: str) -> None:
    """What stands before a mark ends right where it begins."""
    assert find_mark(text + Marks().text(value("q")) + text) == len(text)
