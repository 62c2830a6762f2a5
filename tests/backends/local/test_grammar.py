"""The grammar engine over the bundled model's vocabulary."""

import json

import pytest

from sglrun.backends.local.ebnf import engine_grammar
from sglrun.backends.local.grammar import Grammars, Kind, Matcher
from sglrun.backends.local.pattern import engine_pattern
from sglrun.backends.local.schema import engine_schema
from sglrun.backends.local.tokenizer import Tokenizer
from sglrun.errors import BadRequestError


def forced_text(tokenizer: Tokenizer, matcher: Matcher) -> bytes:
    """Return what must be written, up to the first choice."""
    written = b""
    while not matcher.is_complete():
        token = matcher.forced()
        if token is None:
            break
        matcher.consume(token)
        written += tokenizer.piece(token)
    matcher.close()
    return written


@pytest.mark.parametrize(
    ("kind", "text", "written"),
    [
        ("regex", "a{1000}", "a" * 1000),
        (
            "json_schema",
            engine_schema(json.dumps({"const": "word and " * 170})),
            json.dumps("word and " * 170),
        ),
        ("regex", "a<\\|im_end\\|>b", "a<|im_end|>b"),
        ("regex", "Name: [A-Z]", "Name:"),
        ("regex", "[a-z]", ""),
    ],
)
def test_what_must_come_has_no_choice(
    tokenizer_and_grammars: tuple[Tokenizer, Grammars],
    kind: Kind,
    text: str,
    written: str,
) -> None:
    """What must be written is found token by token, however long it is."""
    tokenizer, grammars = tokenizer_and_grammars

    assert forced_text(tokenizer, grammars.matcher(kind, text)) == written.encode()


_ENDLESS = {
    "type": "object",
    "properties": {"again": {"$ref": "#"}},
    "required": ["again"],
}
_CIRCLE = {
    "$ref": "#/$defs/a",
    "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
}


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        ("regex", engine_pattern(r"[^\w\W]"), "followed: no text fits it$"),
        ("regex", engine_pattern(r"abc[^\w\W]"), "followed: no text fits it$"),
        ("json_schema", engine_schema(json.dumps(_CIRCLE)), "no text fits it$"),
        ("json_schema", engine_schema(json.dumps(_ENDLESS)), "lexemes$"),
        ("lark", engine_grammar('root ::= root "a"'), "no text fits it$"),
        ("lark", "start: nothing", "engine cannot follow this lark: .*nothing"),
    ],
)
def test_what_no_text_fits_is_refused_at_once(
    tokenizer_and_grammars: tuple[Tokenizer, Grammars],
    kind: Kind,
    text: str,
    reason: str,
) -> None:
    """A constraint that leads nowhere is refused before a text begins, in one line."""
    _, grammars = tokenizer_and_grammars

    with pytest.raises(BadRequestError, match=reason) as caught:
        grammars.matcher(kind, text)
    assert "\n" not in str(caught.value)


def test_an_ambiguous_grammar_is_followed(
    tokenizer_and_grammars: tuple[Tokenizer, Grammars],
) -> None:
    """A grammar that reads a text in many ways is no reason to give up."""
    tokenizer, grammars = tokenizer_and_grammars
    grammar = engine_grammar('root ::= root root | "a" | [a-z]+')
    matcher = grammars.matcher("lark", grammar)

    for token in tokenizer.encode("someword"):
        assert matcher.allowed()[token]
        matcher.consume(token)
    matcher.close()


@pytest.mark.parametrize(
    ("grammar", "good", "bad"),
    [
        ('root ::= ("a" | "ab") "bc"', ["abc", "abbc"], ["bc", "ab"]),
        ('root ::= w*\nw ::= [a-z]+ ","?', ["", "ab,cd"], [","]),
        (
            'root ::= "(" root ")" | ("a" | "ab") "bc"',
            ["abc", "(abbc)", "((abc))"],
            ["bc", "(abc"],
        ),
        ('root ::= "trx" root | [a-z] root | "!"', ["tra!", "trx!"], ["tra"]),
    ],
)
def test_a_text_is_found_however_its_parts_are_cut(
    tokenizer_and_grammars: tuple[Tokenizer, Grammars],
    grammar: str,
    good: list[str],
    bad: list[str],
) -> None:
    """A part of a text is not taken for a longer one that leads nowhere."""
    tokenizer, grammars = tokenizer_and_grammars

    def admits(text: str) -> bool:
        matcher = grammars.matcher("lark", engine_grammar(grammar))
        for token in tokenizer.encode(text):
            if not matcher.allowed()[token]:
                return False
            matcher.consume(token)
        return matcher.is_complete() or bool(matcher.allowed()[tokenizer.end])

    assert [text for text in good if not admits(text)] == []
    assert [text for text in bad if admits(text)] == []


def test_any_token_that_ends_an_answer_may_end_a_text(
    tokenizer_and_grammars: tuple[Tokenizer, Grammars],
) -> None:
    """All of them may come where the text is whole, and none before."""
    tokenizer, grammars = tokenizer_and_grammars
    ends = list(tokenizer.ends)
    for pattern, may_end in (("[a-z]*", True), ("[a-z]+", False)):
        matcher = grammars.matcher("regex", pattern)

        assert len(ends) > 1
        assert set(matcher.allowed()[ends]) == {may_end}

        matcher.close()
