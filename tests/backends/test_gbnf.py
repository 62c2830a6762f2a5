"""Grammars in GBNF."""

import re

import pytest

from sglrun.backends.gbnf import regex_grammar, texts_grammar
from sglrun.lang.constraints import DTYPES
from tests.stand_in_wire import grammar_regex

TEXTS = (
    "",
    "0",
    "-12",
    "+3 \n",
    "3.14",
    ".5",
    "True",
    "False",
    '"ab 1"',
    "123-4567",
    "192.168.0.1",
    "yes.",
    "no",
    "a]b",
    "\u00e9",
    "x\ny",
    "aaa",
    "A",
    "-",
    "\t",
)


@pytest.mark.parametrize(
    "pattern",
    [
        *(d.regex for d in DTYPES.values() if d.name != "str"),
        r"[0-9]{3}-[0-9]{4}",
        r"((25[0-5]|2[0-4]\d|[01]?\d\d?)\.){3}(25[0-5]|2[0-4]\d|[01]?\d\d?)",
        r"(?:yes|no)(?P<mark>[.!])?",
        r"^a+?$",
        r"a{2,}|A{0,1}",
        r"[^a-z\n]",
        r"[]a]{1,2}\]?b?",
        r"[\t\-]",
        r"\S.*",
        r"\x41|\u00e9",
        r"",
        r"x\ny",
        r'"\w+ [\d]"',
    ],
)
def test_a_grammar_has_the_texts_of_its_pattern(pattern: str) -> None:
    """Read back as a pattern, the grammar matches the same texts."""
    back = grammar_regex(regex_grammar(pattern))

    assert [bool(re.fullmatch(back, text)) for text in TEXTS] == [
        bool(re.fullmatch(pattern, text)) for text in TEXTS
    ]


@pytest.mark.parametrize(
    "pattern",
    [
        r"(?=a)a",
        r"(?i)a",
        r"(a)\1",
        r"\bword\b",
        r"a^b",
        r"a++",
        r"[\S]",
        r"[[:alpha:]]",
        r"(a",
        r"a)",
        r"[a",
        r"\A",
    ],
)
def test_what_a_grammar_cannot_say_is_refused(pattern: str) -> None:
    """A pattern that has no exact grammar is an error."""
    with pytest.raises(ValueError, match="which a grammar cannot say"):
        regex_grammar(pattern)


def test_texts_are_options() -> None:
    """Every character of a text stands for itself."""
    assert texts_grammar(["a b", '"\\\n', "\u2603"]) == (
        'root ::= "a b" | "\\x22\\x5C\\x0A" | "\\U00002603"'
    )
