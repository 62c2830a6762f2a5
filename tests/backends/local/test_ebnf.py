"""Grammars in the engine's syntax."""

import pytest

from sglrun.backends.local.ebnf import engine_grammar
from sglrun.errors import BadRequestError


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ('root ::= "yes" | "no"', ['r_root: "yes" | "no"']),
        ('root ::= x ("," x)*\nx ::= [a-c]+ # c', None),
        (
            'root ::= a-B{2, 3} .\na-B ::= "k"',
            [r"r_root: r_a_2d__42_ {2,3} /[\s\S]/", 'r_a_2d__42_: "k"'],
        ),
        (r'root ::= "\x41\"\n"', [r'r_root: "A\"\n"']),
        (r"root ::= [^\n\]x-z-]", [r"r_root: /[^\x{A}\x{5D}\x{78}-\x{7A}-]/"]),
        ('root ::= ("a" | )', ['r_root: ( "a" | "" )']),
        ('root ::= | "a"', ['r_root: "" | "a"']),
        ("root ::=", ['r_root: ""']),
    ],
)
def test_a_grammar_is_written_anew(text: str, rules: list[str] | None) -> None:
    """Rules, literals, classes, groups and repetitions keep their meaning."""
    lines = engine_grammar(text).splitlines()

    assert lines[0] == "start: r_root"
    assert lines[1:] == (
        rules or ['r_root: r_x ( "," r_x ) *', r"r_x: /[\x{61}-\x{63}]/ +"]
    )


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('a ::= "b"', "no rule 'root'"),
        ('root ::= "a"\n  $', "line 2: '\\$'"),
        ('"a" root ::= "b"', "begins with"),
    ],
)
def test_what_is_no_grammar_is_refused(text: str, what: str) -> None:
    """A grammar that cannot be read is refused with the place."""
    with pytest.raises(BadRequestError, match=what):
        engine_grammar(text)


def test_the_engines_own_grammars_pass() -> None:
    """A text without ``::=`` is handed on as it is."""
    assert engine_grammar('start: "A"') == 'start: "A"'
