"""Marks: texts that stand for unknown values, and finding them again.

A mark holds every printable character, white space at both ends and inside, and
letters in both cases: whatever changes the text around it changes the mark too, and
what is not whole any more can be told from what is.
"""

import base64
import re
import string
from collections.abc import Iterator
from html import unescape
from urllib.parse import unquote

from sglrun.errors import ProgramError
from sglrun.interpreter.tracing.value import Mark, Value

# Private-use characters of the last plane; no prompt has them.
_BEGIN, _END, _WITHIN = "\U0010fff0", "\U0010fff1", "\U0010fff2"
_FIRST = 0x100000
_MOST = 60_000

# Encodings that keep ASCII letters keep this.
_CORE = "Qz7Xk9Wv3Jp5Hd2"
# Left out is what a format string, a template or a pattern would trip over.
_PLAIN = "".join(sorted(set(string.printable[:94]) - set("{}%$\\"))) + "  \t\n"
# A part that is cut out of it holds the private character too.
_CANARY = "".join(char + _WITHIN * (at % 4 == 0) for at, char in enumerate(_PLAIN))
_BEFORE, _AFTER = " \n", "\n "

_WHOLE = re.compile(
    f"{_BEFORE}{_BEGIN}([\U00100000-\U0010ea60])"
    f"{re.escape(_CORE + _CANARY)}{_END}{_AFTER}"
)
# What stands before the core, as JSON, Python, URLs and HTML write it.
_UNIT = (
    r"\\+u[0-9a-f]{4}|\\+U[0-9a-f]{8}|%[0-9a-f]{2}|&#x?[0-9a-f]+;|"
    "[\U00100000-\U0010ffff]"
)
_LEAD = re.compile(rf"(?:[ +]|%20)?(?:\n|\\+n|%0a)?((?:{_UNIT})*)\Z", re.IGNORECASE)
_LONGEST_LEAD = 96
_QUOTE = re.compile(r"\\*\"\Z")
_BASE64 = string.ascii_letters + string.digits + "+/-_="
_HEX = string.hexdigits


class DamagedMarkError(ProgramError):
    """Text with an unknown value in it was changed in a way that is not recorded."""


class Marks:
    """The marks of one trace. Safe from any thread."""

    def __init__(self) -> None:
        """Begin without marks."""
        self._values: list[Value] = []

    def text(self, value: Value) -> str:
        """Return a new mark for *value*."""
        # A trace that makes more has long been stopped.
        number = min(len(self._values), _MOST)
        self._values.append(value)
        return f"{_BEFORE}{_BEGIN}{chr(_FIRST + number)}{_CORE}{_CANARY}{_END}{_AFTER}"

    def split(self, text: str) -> tuple[str | Mark, ...]:
        """Return *text* as constant parts and the values between them.

        Raises:
            DamagedMarkError: a mark in it is not whole.
        """
        return tuple(part for part in self._split(text) if part != "")

    def fragments(self, text: str) -> tuple[str | Mark, ...]:
        """Return *text* as ``split`` does, up to a mark that is not whole.

        What that stands for, and the rest, is a value that is not exactly known.
        """
        text = str.__str__(text)  # a placeholder's own text, not another mark
        try:
            return self.split(text)
        except DamagedMarkError:
            before = text[: find_mark(text)]
            first = self.first(text) or Value(source="variable", name=None)
            lost = Mark(first.then("…").inexact())
            return (before, lost) if before else (lost,)

    def first(self, text: str) -> Value | None:
        """Return the value of the first mark in *text*, if it can be told."""
        found = _WHOLE.search(text)
        return self._encoded(text) if found is None else self._value(found)

    def _encoded(self, text: str) -> Value | None:
        at = text.find(_CORE)
        lead = _LEAD.search(text[max(0, at - _LONGEST_LEAD) : max(0, at)])
        if lead is None:
            return None
        for decode in (_unescaped, unquote, unescape):
            numbers = [ord(char) - _FIRST for char in decode(lead[1])]
            if numbers and 0 <= numbers[-1] < len(self._values):
                return self._values[numbers[-1]]
        return None

    def _split(self, text: str) -> Iterator[str | Mark]:
        at = 0
        for found in _WHOLE.finditer(text):
            yield _undamaged(text[at : found.start()])
            yield Mark(self._value(found))
            at = found.end()
        yield _undamaged(text[at:])

    def _value(self, found: re.Match[str]) -> Value:
        return self._values[ord(found[1]) - _FIRST]


def find_mark(text: str) -> int:
    """Return where the first mark in *text* begins, whole or not; -1 without one.

    A mark in JSON, a URL, HTML, hexadecimal or base64 is found too. A quote before it
    is taken to be JSON's: it belongs to the value, which may be no string.
    """
    plain = min(
        (at for char in (_BEGIN, _END, _WITHIN) if (at := text.find(char)) >= 0),
        default=-1,
    )
    found = [] if plain < 0 else [_part_begin(text, plain)]
    folded = text.casefold()
    found += [
        _lead_begin(text, at)
        for core in _SPELLED
        if (at := folded.find(core)) >= 0 and not 0 <= plain < at
    ]
    found += [
        _token_begin(text, at, alphabet)
        for core, alphabet in _ENCODED
        if (at := text.find(core)) >= 0
    ]
    if not found:
        return -1
    return len(_QUOTE.sub("", text[: min(found)]))


def has_mark(text: str) -> bool:
    """Return whether *text* holds a mark or what is left of one."""
    return find_mark(text) >= 0


def _unescaped(text: str) -> str:
    written = text.encode("ascii", "backslashreplace").decode("unicode_escape")
    return written.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _undamaged(text: str) -> str:
    if has_mark(text):
        raise DamagedMarkError(
            "text with an unknown value in it is changed afterwards; change the value "
            "first, then put it into the text"
        )
    return text


def _part_begin(text: str, at: int) -> int:
    """Return where the part of a mark begins whose first private character is *at*."""
    if text[at] == _WITHIN:
        part = _CORE + _CANARY
        ends = (found.start() for found in re.finditer(_WITHIN, part))
        at -= max(_same_end(text[:at], part[:end]) for end in ends)
    return _lead_begin(text, at)


def _same_end(one: str, other: str) -> int:
    pairs = enumerate(zip(reversed(one), reversed(other), strict=False))
    longest = min(len(one), len(other))
    return next((at for at, (mine, its) in pairs if mine != its), longest)


def _lead_begin(text: str, at: int) -> int:
    earliest = max(0, at - _LONGEST_LEAD)
    found = _LEAD.search(text[earliest:at])
    return at if found is None else earliest + found.start()


def _token_begin(text: str, at: int, alphabet: str) -> int:
    return len(text[:at].rstrip(alphabet))


def _base64_cores() -> Iterator[str]:
    for shift in range(3):
        coded = base64.b64encode(b"\0" * shift + _CORE.encode()).decode()
        yield coded[4 if shift else 0 : len(coded) - 4]


_SPELLED = (_CORE.casefold(), _CORE.casefold()[::-1])
_ENCODED = (
    *((core, _BASE64) for core in _base64_cores()),
    (_CORE.encode().hex(), _HEX),
    (_CORE.encode().hex().upper(), _HEX),
)
