"""Marks: found where they are, and told from what they are no longer."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglrun.interpreter.tracing.marks import (
    DamagedMarkError,
    Marks,
    find_mark,
    has_mark,
)
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

    assert list(marks.split(whole)) == expected
    assert marks.first(whole) == values[0]


@given(TEXT)
def test_other_text_has_no_mark(text: str) -> None:
    """What nobody marked is constant."""
    assert find_mark(text) == -1
    assert Marks().split(text) == ((text,) if text else ())


@given(st.text("ab .", max_size=6))
def test_a_mark_is_found_where_it_begins(text: str) -> None:
    """What stands before a mark ends right where it begins."""
    assert find_mark(text + Marks().text(value("q")) + text) == len(text)


CHANGES: dict[str, Any] = {
    "upper": str.upper,
    "lower": str.lower,
    "title": str.title,
    "strip": str.strip,
    "reversed": lambda text: text[::-1],
    "cut in front": lambda text: text[20:],
    "cut behind": lambda text: text[:-20],
    "white space": lambda text: " ".join(text.split()),
    "a letter": lambda text: text.replace("e", "3"),
    "JSON": json.dumps,
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_the_text_shows(change: str) -> None:
    """Whatever changes text with a mark in it, changes the mark; it is found still."""
    marks = Marks()
    changed = CHANGES[change](marks.text(value("q")))

    assert has_mark(changed)
    with pytest.raises(DamagedMarkError):
        marks.split(changed)
