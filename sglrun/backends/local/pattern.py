r"""The pattern of a request, from Python's syntax into that of the grammar engine.

Python's own reading of the pattern is written out anew, so that it means the same: the
engine reads ``\w`` wider than Python, knows no anchors, and takes other escapes.
"""

import importlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

from sglrun.errors import BadRequestError, UnsupportedFeatureError

# Python's reader of patterns. It is private, and the same from Python 3.11 on; what it
# may learn later is refused by name.
_parser: Any = importlib.import_module("re._parser")

_LETTERS = r"\p{L}\p{N}_"
_SPACES = r"\s\x1c-\x1f"

# What the classes hold, inside brackets; by whether the pattern is ASCII only.
_CATEGORIES = {
    "CATEGORY_DIGIT": (r"\d", "0-9"),
    "CATEGORY_NOT_DIGIT": (r"\D", "[^0-9]"),
    "CATEGORY_SPACE": (_SPACES, r" \t-\r"),
    "CATEGORY_NOT_SPACE": (f"[^{_SPACES}]", r"[^ \t-\r]"),
    "CATEGORY_WORD": (_LETTERS, "a-zA-Z0-9_"),
    "CATEGORY_NOT_WORD": (f"[^{_LETTERS}]", "[^a-zA-Z0-9_]"),
}
_EDGES = {
    "AT_BEGINNING": "^",
    "AT_BEGINNING_STRING": r"\A",
    "AT_END": "$",
    "AT_END_STRING": r"\Z",
}
_BEGINNINGS = frozenset({"AT_BEGINNING", "AT_BEGINNING_STRING"})
_ENDS = frozenset(_EDGES) - _BEGINNINGS
_ALPHABETS = (range(ord("A"), ord("Z") + 1), range(ord("a"), ord("z") + 1))
_TO_OTHER_CASE = ord("a") - ord("A")
_WIDTHS = re.ASCII | re.LOCALE | re.UNICODE  # of what classes and cases know
_UNSUPPORTED = {
    "ASSERT": "lookahead or lookbehind",
    "ASSERT_NOT": "negative lookahead or lookbehind",
    "GROUPREF": "a reference to a group",
    "GROUPREF_EXISTS": "a condition on a group",
    "ATOMIC_GROUP": "an atomic group",
    "POSSESSIVE_REPEAT": "a possessive repetition",
}

_Item = tuple[object, Any]


def engine_pattern(pattern: str) -> str:
    """Return *pattern* as the grammar engine writes it; it matches the same texts.

    Raises:
        BadRequestError: it is no pattern.
        UnsupportedFeatureError: it uses what the engine cannot follow.
    """
    try:
        parsed = _parser.parse(pattern)
    except (re.error, OverflowError) as exc:
        raise BadRequestError(f"the regex {pattern!r} is wrong: {exc}") from exc
    return _Writer(pattern).whole(parsed, parsed.state.flags)


class _Writer:
    """Writes the parts of one pattern."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern

    def whole(self, items: Sequence[_Item], flags: int) -> str:
        return self._cased(self._sequence(items, flags, (True, True)), flags)

    def _sequence(
        self, items: Sequence[_Item], flags: int, edges: tuple[bool, bool]
    ) -> str:
        start = next(_others(items, _BEGINNINGS), len(items))
        end = len(items) - 1 - next(_others(items[::-1], _ENDS), len(items))
        return "".join(
            self._item(item, flags, (edges[0] and at <= start, edges[1] and at >= end))
            for at, item in enumerate(items)
        )

    def _item(self, item: _Item, flags: int, edges: tuple[bool, bool]) -> str:
        name, argument = str(item[0]), item[1]
        match name:
            case "BRANCH":
                options = (self._sequence(x, flags, edges) for x in argument[1])
                text = f"(?:{'|'.join(options)})"
            case "SUBPATTERN":
                text = self._group(argument, flags, edges)
            case "MAX_REPEAT" | "MIN_REPEAT":
                text = self._repeat(*argument, flags=flags)
            case "AT":
                text = self._anchor(str(argument), edges)
            case _:
                text = self._one(name, argument, flags)
        return text

    def _one(self, name: str, argument: Any, flags: int) -> str:
        """Return what matches one character."""
        match name:
            case "LITERAL":
                both = self._range(argument, argument, flags)
                return self._character(argument) if len(both) == 1 else _set(both)
            case "NOT_LITERAL":
                return _set(["^", *self._range(argument, argument, flags)])
            case "ANY":
                return "(?s:.)" if flags & re.DOTALL else r"[^\n]"
            case "IN":
                return self._class(argument, flags)
            case _:
                raise self._unsupported(_UNSUPPORTED.get(name, name))

    def _group(
        self, argument: tuple[Any, ...], flags: int, edges: tuple[bool, bool]
    ) -> str:
        _, added, removed, items = argument
        kept = flags & ~_WIDTHS if added & _WIDTHS else flags
        inner = (kept | added) & ~removed
        text = self._sequence(items, inner, edges)
        if _folds(inner) != _folds(flags):
            return self._cased(text, inner)
        return f"(?:{text})"

    def _repeat(self, least: int, most: object, items: Any, *, flags: int) -> str:
        text = self._sequence(items, flags, (False, False))
        if most == _parser.MAXREPEAT:
            count = {0: "*", 1: "+"}.get(least, f"{{{least},}}")
        else:
            count = f"{{{least},{most}}}"
        return f"(?:{text}){count}"

    def _class(self, items: Sequence[_Item], flags: int) -> str:
        parts = []
        for item in items:
            match str(item[0]), item[1]:
                case "NEGATE", _:
                    parts.append("^")
                case "LITERAL", code:
                    parts += self._range(code, code, flags)
                case "RANGE", (low, high):
                    parts += self._range(low, high, flags)
                case "CATEGORY", category:
                    is_ascii = bool(flags & re.ASCII)
                    parts.append(_CATEGORIES[str(category)][is_ascii])
                case name, _:
                    raise self._unsupported(name)
        return _set(parts)

    def _range(self, low: int, high: int, flags: int) -> list[str]:
        """Return the characters from *low* to *high*, in both cases where that is told.

        The engine knows the case of all letters; of ASCII alone, it is written out.
        """
        ranges = [(low, high)]
        if flags & re.IGNORECASE and flags & re.ASCII:
            for letters, distance in zip(
                _ALPHABETS, (_TO_OTHER_CASE, -_TO_OTHER_CASE), strict=True
            ):
                first, last = max(low, letters[0]), min(high, letters[-1])
                if first <= last:
                    ranges.append((first + distance, last + distance))
        return [
            self._character(first)
            if first == last
            else f"{self._character(first)}-{self._character(last)}"
            for first, last in ranges
        ]

    def _anchor(self, name: str, edges: tuple[bool, bool]) -> str:
        """Drop an anchor where a match of the whole text has its edge anyway."""
        if name in _EDGES and edges[0 if name in _BEGINNINGS else 1]:
            return ""
        inside = f"{_EDGES[name]} inside the pattern" if name in _EDGES else None
        raise self._unsupported(inside or "a word boundary")

    def _character(self, code: int) -> str:
        if 0xD800 <= code <= 0xDFFF:  # noqa: PLR2004 - half a character
            raise self._unsupported("a lone surrogate")
        character = chr(code)
        if character.isascii() and character.isalnum():
            return character
        return f"\\x{{{code:X}}}"

    def _cased(self, text: str, flags: int) -> str:
        return f"(?i:{text})" if _folds(flags) else f"(?-i:{text})"

    def _unsupported(self, what: str) -> UnsupportedFeatureError:
        return UnsupportedFeatureError(
            f"'local' cannot follow the regex {self._pattern!r}: it uses {what}"
        )


def _folds(flags: int) -> bool:
    """Return whether the engine is to take letters in either case."""
    return bool(flags & re.IGNORECASE and not flags & re.ASCII)


def _set(parts: Sequence[str]) -> str:
    return f"[{''.join(parts)}]"


def _others(items: Sequence[_Item], anchors: frozenset[str]) -> Iterator[int]:
    """Yield where *items* are none of *anchors*."""
    return (
        at
        for at, (name, argument) in enumerate(items)
        if str(name) != "AT" or str(argument) not in anchors
    )
