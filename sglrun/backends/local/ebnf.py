"""The grammar of a request, from EBNF as model servers read it into the engine's.

The EBNF is the one of llama.cpp and XGrammar: ``name ::= ...`` with literals, classes,
groups, ``|``, repetitions and ``#`` comments; ``root`` is what is to be written.

The engine reads a text lexeme by lexeme, each as long as it can be, and never looks
back: of ``("a" | "ab") "bc"`` it would not find ``abc``. A grammar that does not refer
to itself is therefore one lexeme, and in another no lexeme begins a longer one.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from sglrun.errors import BadRequestError

_TOKEN = re.compile(
    r"""
      (?P<space>\s+|\#[^\n]*)
    | (?P<define>[A-Za-z_][\w-]*\s*::=)
    | (?P<name>[A-Za-z_][\w-]*)
    | (?P<literal>"(?:[^"\\\n]|\\.)*")
    | (?P<klass>\[(?:[^\]\\]|\\.)*\])
    | (?P<any>\.)
    | (?P<times>\{\s*\d+\s*(?:,\s*\d*\s*)?\})
    | (?P<sign>[()|*+?])
    """,
    re.VERBOSE | re.ASCII,
)
_ESCAPE = re.compile(
    r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL
)
_PIECE = r"\\(?:x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)"
_LETTERS = {"n": "\n", "r": "\r", "t": "\t"}
_ANY = r"/[\s\S]/"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Token:
    """A piece of the text.

    Attributes:
        kind: the name of its part in ``_TOKEN``.
        value: what it stands for: a name, the characters of a literal; the text itself
            for the rest.
        line: where it begins, counted from 1.
    """

    kind: str
    value: str
    line: int


_Class = tuple[bool, tuple[tuple[int, int], ...]]
_Rules = Mapping[str, Sequence[_Token]]


def engine_grammar(text: str) -> str:
    """Return the grammar *text* as the engine reads it (Lark).

    A text without ``::=`` is taken to be Lark already.

    Raises:
        BadRequestError: it is no grammar, or has no ``root``.
    """
    if "::=" not in text:
        return text
    rules = _parse(text)
    used = _used(rules)
    try:
        tuple(TopologicalSorter(used).static_order())
    except CycleError:
        split = _split([token for name in used for token in rules[name]])
        lines = [f"{_rule(name)}: {_body(rules[name], split)}" for name in used]
        return "\n".join([f"start: {_rule('root')}", *lines])
    lines = [f"{_term(name)}: {_body(rules[name])}" for name in used]
    return "\n".join([f"start: {_term('root')}", *lines])


def _parse(text: str) -> _Rules:
    """Return the bodies of the rules by their names."""
    rules: dict[str, list[_Token]] = {}
    body: list[_Token] | None = None
    for token in _tokens(text):
        if token.kind == "define":
            body = _begin(rules, token)
        elif body is None:
            raise BadRequestError(
                f"the ebnf begins with {token.value!r}, not with a rule"
            )
        else:
            body.append(token)
    if "root" not in rules:
        raise BadRequestError("the ebnf has no rule 'root'")
    return rules


def _begin(rules: dict[str, list[_Token]], token: _Token) -> list[_Token]:
    """Return the body of the rule that *token* defines, empty and among *rules*."""
    if token.value in rules:
        raise BadRequestError(
            f"the ebnf defines {token.value!r} again in line {token.line}"
        )
    return rules.setdefault(token.value, [])


def _tokens(text: str) -> Iterator[_Token]:
    at, line = 0, 1
    while at < len(text):
        found = _TOKEN.match(text, at)
        try:
            if found is None:
                raise ValueError(text[at])
            kind = str(found.lastgroup)
            token = _Token(kind=kind, value=_value(kind, found[0]), line=line)
        except ValueError as exc:
            raise BadRequestError(
                f"the ebnf is wrong in line {line}: {text[at:][:40]!r}"
            ) from exc
        if kind != "space":
            yield token
        line += text.count("\n", at, found.end())
        at = found.end()


def _value(kind: str, text: str) -> str:
    """Return what a token stands for.

    Raises:
        ValueError: it is no class, or names a character that is none.
    """
    match kind:
        case "define":
            return text.removesuffix("::=").rstrip()
        case "literal":
            return _ESCAPE.sub(_character, text[1:-1])
        case "klass":
            _, ranges = _ranges(text)
            if not ranges or any(low > high for low, high in ranges):
                raise ValueError(text)
            return text
        case "times":
            return re.sub(r"\s", "", text)
        case _:
            return text


def _used(rules: _Rules) -> dict[str, set[str]]:
    """Return what ``root`` leads to: names, and which others each refers to."""
    used: dict[str, set[str]] = {}
    waiting = ["root"]
    while waiting:
        name = waiting.pop()
        if name in used:
            continue
        names = [token for token in rules[name] if token.kind == "name"]
        for token in names:
            if token.value not in rules:
                raise BadRequestError(
                    f"the ebnf has no rule {token.value!r}, named in line {token.line}"
                )
        used[name] = {token.value for token in names}
        waiting += sorted(used[name], reverse=True)
    return used


def _split(tokens: Sequence[_Token]) -> frozenset[str]:
    """Return the literals among *tokens* to write as single characters.

    Else one of them would begin as another lexeme does that is shorter, or longer.
    """
    classes = [_ranges(token.value) for token in tokens if token.kind == "klass"]
    if any(token.kind == "any" for token in tokens):
        classes.append((True, ()))
    literals = {token.value for token in tokens if token.kind == "literal"}
    whole = {literal for literal in literals if len(literal) > 1}
    while True:
        single = set("".join(literals - whole))
        more = {
            literal
            for literal in whole
            if literal[0] in single
            or any(_admits(each, literal[0]) for each in classes)
            or any(literal.startswith(each) for each in whole - {literal})
        }
        if not more:
            return frozenset(literals - whole)
        whole -= more


def _body(body: Sequence[_Token], split: frozenset[str] | None = None) -> str:
    """Return a rule's body, as one lexeme without *split*.

    An empty alternative is written as an empty text.
    """
    written = [_written(token, split) for token in body]
    with_empty: list[str] = [] if written and written[0] != "|" else ['""']
    for at, token in enumerate(written):
        with_empty.append(token)
        following = written[at + 1] if at + 1 < len(written) else ")"
        if token in ("(", "|") and following in (")", "|"):
            with_empty.append('""')
    return " ".join(with_empty)


def _written(token: _Token, split: frozenset[str] | None) -> str:
    match token.kind:
        case "name":
            return _term(token.value) if split is None else _rule(token.value)
        case "literal":
            return _literal(token.value, split or frozenset())
        case "klass":
            return f"/{_class(token.value)}/"
        case "any":
            return _ANY
        case _:
            return token.value


def _literal(value: str, split: frozenset[str]) -> str:
    if value in split and len(value) > 1:
        pieces = (json.dumps(piece, ensure_ascii=False) for piece in value)
        return f"( {' '.join(pieces)} )"
    return json.dumps(value, ensure_ascii=False)


def _rule(name: str) -> str:
    """Return the engine's name of a rule; it takes lower case and no dashes."""
    plain = re.sub(r"[^a-z0-9]", lambda found: f"_{ord(found[0]):x}_", name)
    return f"r_{plain}"


def _term(name: str) -> str:
    """Return the engine's name of a lexeme; it takes upper case."""
    return _rule(name).upper()


def _class(text: str) -> str:
    is_negated, ranges = _ranges(text)
    parts = [
        f"\\x{{{low:X}}}" if low == high else f"\\x{{{low:X}}}-\\x{{{high:X}}}"
        for low, high in ranges
    ]
    return f"[{'^' if is_negated else ''}{''.join(parts)}]"


def _ranges(text: str) -> _Class:
    """Return whether the class *text* is negated, and from where to where it goes."""
    is_negated = text.startswith("[^")
    pieces = re.findall(rf"{_PIECE}|.", text[1 + is_negated : -1], re.DOTALL)
    codes = [ord(_ESCAPE.sub(_character, piece)) for piece in pieces]
    ranges: list[tuple[int, int]] = []
    at = 0
    while at < len(pieces):
        width = 2 if pieces[at + 1 : at + 2] == ["-"] and at + 2 < len(pieces) else 0
        ranges.append((codes[at], codes[at + width]))
        at += width + 1
    return is_negated, tuple(ranges)


def _admits(each: _Class, character: str) -> bool:
    is_negated, ranges = each
    return is_negated != any(low <= ord(character) <= high for low, high in ranges)


def _character(found: re.Match[str]) -> str:
    digits = found[1] or found[2] or found[3]
    if not digits:
        return _LETTERS.get(found[4], found[4])
    character = chr(int(digits, 16))
    character.encode()  # half a character is none: a UnicodeEncodeError
    return character
