r"""The pattern of a request, from Python's syntax into that of the grammar engine.

Python's own reading of the pattern is written out anew, so that it means the same: the
engine reads ``\w`` wider than Python, knows no anchors, and takes other escapes.
"""

import importlib
import re
from collections.abc import Sequence
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
    "CATEGORY_SPACE": (r"\s", r" \t-\r"),
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
        last = len(items) - 1
        return "".join(
            self._item(item, flags, (edges[0] and at == 0, edges[1] and at == last))
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
                return self._character(argument)
            case "NOT_LITERAL":
                return f"[^{self._character(argument)}]"
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
        inner = (flags | added) & ~removed
        text = self._sequence(items, inner, edges)
        if (inner ^ flags) & re.IGNORECASE:
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
                    parts.append(self._character(code))
                case "RANGE", (low, high):
                    parts.append(f"{self._character(low)}-{self._character(high)}")
                case "CATEGORY", category:
                    is_ascii = bool(flags & re.ASCII)
                    parts.append(_CATEGORIES[str(category)][is_ascii])
                case name, _:
                    raise self._unsupported(name)
        return f"[{''.join(parts)}]"

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
        return f"(?i:{text})" if flags & re.IGNORECASE else f"(?-i:{text})"

    def _unsupported(self, what: str) -> UnsupportedFeatureError:
        return UnsupportedFeatureError(
            f"'local' cannot follow the regex {self._pattern!r}: it uses {what}"
        )
