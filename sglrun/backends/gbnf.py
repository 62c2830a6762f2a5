"""Grammars in GBNF, llama.cpp's notation: of several texts, and of a pattern.

A pattern is translated where that is exact, and refused where it is not: a grammar has
no look-around, no references and no borders of words.
"""

import re
from collections.abc import Iterable
from typing import NoReturn

_SETS = {
    "d": "0-9",
    "w": "a-zA-Z0-9_",
    "s": r" \t\n\r\x0B\x0C",
}
_CONTROL = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a", "0": "\0"}
_CODE_WIDTHS = {"x": 2, "u": 4, "U": 8}
_QUANTIFIER = re.compile(r"([*+?]|\{(\d*)(,?)(\d*)\})\??")
_GROUP = re.compile(r"\?(?::|P<\w+>)|(?!\?)")


def texts_grammar(texts: Iterable[str]) -> str:
    """Return a grammar that has exactly *texts*."""
    return "root ::= " + " | ".join(map(_quoted, texts))


def regex_grammar(pattern: str) -> str:
    """Return a grammar that has exactly the texts that *pattern* matches as a whole.

    The sets of digits, word characters and spaces are those of ASCII.

    Raises:
        ValueError: the pattern uses what a grammar cannot say.
    """
    return f"root ::= {_Translation(pattern).rule()}"


def _quoted(text: str) -> str:
    return '"' + "".join(map(_character, text)) + '"'


def _character(one: str) -> str:
    """Return *one* character, escaped unless it is plainly itself."""
    if one.isascii():
        return one if one.isalnum() or one == " " else f"\\x{ord(one):02X}"
    return f"\\U{ord(one):08X}"


class _Translation:
    """A reader of a pattern that writes the same in GBNF."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern.removeprefix("^")
        if re.search(r"(?<!\\)(\\\\)*\$\Z", self._pattern):
            self._pattern = self._pattern[:-1]
        self._at = 0

    def rule(self) -> str:
        rule = self._alternatives()
        if self._at < len(self._pattern):
            self._fail("a parenthesis too many")
        return rule

    def _fail(self, what: str) -> NoReturn:
        raise ValueError(f"{self._pattern!r} has {what}, which a grammar cannot say")

    def _alternatives(self) -> str:
        options = [self._sequence()]
        while self._next_is("|"):
            self._at += 1
            options.append(self._sequence())
        return " | ".join(options)

    def _sequence(self) -> str:
        pieces = []
        while self._at < len(self._pattern) and self._pattern[self._at] not in "|)":
            pieces.append(self._atom() + self._quantifier())
        return " ".join(pieces) or '""'

    def _next_is(self, character: str) -> bool:
        return self._pattern[self._at : self._at + 1] == character

    def _take(self) -> str:
        if self._at >= len(self._pattern):
            self._fail("no end")
        self._at += 1
        return self._pattern[self._at - 1]

    def _quantifier(self) -> str:
        found = _QUANTIFIER.match(self._pattern, self._at)
        if found is None:
            return ""
        self._at = found.end()
        if self._at < len(self._pattern) and self._pattern[self._at] in "*+?":
            self._fail("a possessive quantifier")
        if found[1][0] != "{":
            return found[1]
        return "{" + (found[2] or "0") + found[3] + found[4] + "}"

    def _atom(self) -> str:
        readers = {"(": self._group, "[": self._class, "\\": self._escape}
        first = self._take()
        if first in "^$":
            self._fail("an anchor in the middle")
        if first in readers:
            return readers[first]()
        return r"[^\n]" if first == "." else _quoted(first)

    def _group(self) -> str:
        head = _GROUP.match(self._pattern, self._at)
        if head is None:
            self._fail("look-around, a flag or a reference")
        self._at = head.end()
        inside = self._alternatives()
        if self._take() != ")":
            self._fail("an open parenthesis")
        return f"({inside})"

    def _escape(self) -> str:
        letter = self._take()
        if letter.lower() in _SETS:
            outside = "^" if letter.isupper() else ""
            return f"[{outside}{_SETS[letter.lower()]}]"
        return _quoted(self._named(letter))

    def _named(self, letter: str) -> str:
        """Return the character that an escape with *letter* stands for."""
        if letter in _CODE_WIDTHS:
            width = _CODE_WIDTHS[letter]
            return chr(int("".join(self._take() for _ in range(width)), 16))
        if letter in _CONTROL:
            return _CONTROL[letter]
        if letter.isalnum():
            self._fail(f"\\{letter}")
        return letter

    def _class(self) -> str:
        outside = "^" if self._next_is("^") else ""
        self._at += len(outside)
        pieces = [self._member()]
        while not self._next_is("]"):
            pieces.append(self._member())
        self._at += 1
        return f"[{outside}{''.join(pieces)}]"

    def _member(self) -> str:
        first = self._take()
        if first == "[" and self._next_is(":"):
            self._fail("a class by name")
        if first == "\\":
            letter = self._take()
            if letter in _SETS:
                return _SETS[letter]
            if letter.lower() in _SETS:
                self._fail(f"\\{letter} inside a class")
            first = self._named(letter)
        if not self._next_is("-") or self._pattern[self._at + 1 : self._at + 2] == "]":
            return _character(first)
        self._at += 1
        last = self._take()
        if last == "\\":
            last = self._named(self._take())
        return f"{_character(first)}-{_character(last)}"
