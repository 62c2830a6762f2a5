"""Grammars in the engine's syntax."""

import pytest

from sglrun.backends.local.ebnf import engine_grammar
from sglrun.errors import BadRequestError


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ('root ::= "yes" | "no"', ['R_ROOT: "yes" | "no"']),
        (
            'root ::= x ("," x)*\nx ::= [a-c]+ # c',
            ['R_ROOT: R_X ( "," R_X ) *', r"R_X: /[\x{61}-\x{63}]/ +"],
        ),
        (
            'root ::= a-B{2, 3} .\na-B ::= "k"',
            [r"R_ROOT: R_A_2D__42_ {2,3} /[\s\S]/", 'R_A_2D__42_: "k"'],
        ),
        (r'root ::= "\x41\"\n"', [r'R_ROOT: "A\"\n"']),
        (
            r"root ::= [^\n\]x-z-] [-a\-]",
            [
                r"R_ROOT: /[^\x{A}\x{5D}\x{78}-\x{7A}\x{2D}]/ /[\x{2D}\x{61}\x{2D}]/",
            ],
        ),
        ('root ::= ("a" | )', ['R_ROOT: ( "a" | "" )']),
        ('root ::= | "a"', ['R_ROOT: "" | "a"']),
        ('root ::= "a"\nunused ::= "b" unused', ['R_ROOT: "a"']),
        ('root ::= "|" "b"', ['R_ROOT: "|" "b"']),
        ("root ::=", ['R_ROOT: ""']),
    ],
)
def test_a_grammar_is_written_anew(text: str, rules: list[str]) -> None:
    """Rules, literals, classes, groups and repetitions keep their meaning."""
    assert engine_grammar(text).splitlines() == ["start: R_ROOT", *rules]


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ('root ::= "ab" root | "cd"', ['r_root: "ab" r_root | "cd"']),
        (
            'root ::= "ab" root | "a" | "bc" | "dd"',
            ['r_root: ( "a" "b" ) r_root | "a" | ( "b" "c" ) | "dd"'],
        ),
        (
            'root ::= "ab" root | [^b-z] | "bc"',
            [r'r_root: ( "a" "b" ) r_root | /[^\x{62}-\x{7A}]/ | ( "b" "c" )'],
        ),
        ('root ::= "ab" root | . ', [r'r_root: ( "a" "b" ) r_root | /[\s\S]/']),
        (
            'root ::= "abc" root | x\nx ::= "ab"{2}',
            ['r_root: ( "a" "b" "c" ) r_root | r_x', 'r_x: ( "a" "b" ) {2}'],
        ),
    ],
)
def test_in_a_recursive_grammar_no_lexeme_begins_another(
    text: str, rules: list[str]
) -> None:
    """A literal is written by its characters where it could be taken for another."""
    assert engine_grammar(text).splitlines() == ["start: r_root", *rules]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('a ::= "b"', "no rule 'root'"),
        ('root ::= "a"\n  $', "line 2: '\\$'"),
        ('"a" root ::= "b"', "begins with"),
        ('root ::= x\n\nx ::= "a" y', "no rule 'y', named in line 3"),
        ('root ::= x\nx ::= "a"\nx ::= "b"', "defines 'x' again in line 3"),
        ('root ::= "a"\n\n[z-a]', r"line 3: '\[z-a"),
        (r'root ::= "\U00110000"', "line 1"),
        (r"root ::= [\uD800]", "line 1"),
        ("root ::= []", r"line 1: '\[\]"),
    ],
)
def test_what_is_no_grammar_is_refused(text: str, what: str) -> None:
    """A grammar that cannot be read is refused with the place."""
    with pytest.raises(BadRequestError, match=what):
        engine_grammar(text)


def test_the_engines_own_grammars_pass() -> None:
    """A text without ``::=`` is handed on as it is."""
    assert engine_grammar('start: "A"') == 'start: "A"'
