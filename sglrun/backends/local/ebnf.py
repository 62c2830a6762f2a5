"""The grammar of a request, from EBNF as model servers read it into the engine's.

The EBNF is the one of llama.cpp and XGrammar: ``name ::= ...`` with literals, classes,
groups, ``|``, repetitions and ``#`` comments; ``root`` is what is to be written.
"""

import json
import re
from collections.abc import Iterator

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
_LETTERS = {"n": "\n", "r": "\r", "t": "\t"}
_ANY = r"/[\s\S]/"


def engine_grammar(text: str) -> str:
    """Return the grammar *text* as the engine reads it (Lark).

    A text without ``::=`` is taken to be Lark already.

    Raises:
        BadRequestError: it is no grammar, or has no ``root``.
    """
    if "::=" not in text:
        return text
    rules: dict[str, list[str]] = {}
    body: list[str] | None = None
    for kind, token in _tokens(text):
        if kind == "define":
            body = rules.setdefault(_rule(token.removesuffix("::=").rstrip()), [])
        elif body is None:
            raise BadRequestError(f"the ebnf begins with {token!r}, not with a rule")
        else:
            body.append(_written(kind, token))
    if _rule("root") not in rules:
        raise BadRequestError("the ebnf has no rule 'root'")
    lines = [f"{name}: {_whole(body)}" for name, body in rules.items()]
    return "\n".join([f"start: {_rule('root')}", *lines])


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            line = text.count("\n", 0, at) + 1
            raise BadRequestError(
                f"the ebnf is wrong in line {line}: {text[at:][:40]!r}"
            )
        at = found.end()
        if found.lastgroup is not None and found.lastgroup != "space":
            yield found.lastgroup, found[0]


def _written(kind: str, token: str) -> str:
    match kind:
        case "name":
            return _rule(token)
        case "literal":
            return json.dumps(_ESCAPE.sub(_character, token[1:-1]), ensure_ascii=False)
        case "klass":
            return f"/{_class(token[1:-1])}/"
        case "any":
            return _ANY
        case "times":
            return re.sub(r"\s", "", token)
        case _:
            return token


def _rule(name: str) -> str:
    """Return the engine's name of a rule; it takes lower case and no dashes."""
    plain = re.sub(r"[^a-z0-9]", lambda found: f"_{ord(found[0]):x}_", name)
    return f"r_{plain}"


def _class(body: str) -> str:
    negated = "^" if body.startswith("^") else ""
    parts = []
    for found in re.finditer(rf"{_ESCAPE.pattern}|.", body[len(negated) :], re.DOTALL):
        piece = found[0]
        if piece == "-":
            parts.append("-")
        else:
            character = _character(found) if piece.startswith("\\") else piece
            parts.append(f"\\x{{{ord(character):X}}}")
    return f"[{negated}{''.join(parts)}]"


def _character(found: re.Match[str]) -> str:
    digits = found[1] or found[2] or found[3]
    return chr(int(digits, 16)) if digits else _LETTERS.get(found[4], found[4])


def _whole(body: list[str]) -> str:
    """Return a rule's body; an empty alternative is written as an empty text."""
    written: list[str] = []
    for at, token in enumerate(body):
        written.append(token)
        following = body[at + 1] if at + 1 < len(body) else ")"
        if token in ("(", "|") and following in (")", "|"):
            written.append('""')
    if not body or body[0] == "|":
        written.insert(0, '""')
    return " ".join(written)
