"""Instances: small texts that satisfy a pattern or a JSON schema.

They stand in for a model that is held to a constraint. What comes out is checked
against the constraint where the standard library can, so a wrong instance is an error
here and never an answer.
"""

import json
import re
from collections.abc import Iterator, Mapping

_CLASS_SAMPLES = {"d": "1", "D": "a", "w": "a", "W": "-", "s": " ", "S": "a"}
_CONTROL = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v"}
_BOUNDARIES = {"b", "B", "A", "Z"}
_QUANTIFIER = re.compile(r"(\*|\+|\?|\{(\d*)(,?)\d*\})[?+]?")
_CANDIDATES = "1a A-_.,:/ 0z\n"


def regex_instance(pattern: str) -> str:
    """Return a short text that *pattern* matches as a whole.

    Literals, classes, groups, alternatives and repetitions are understood; look-around
    and references are not.

    Raises:
        ValueError: no text was found.
    """
    try:
        text = _Pattern(pattern).text()
    except StopIteration:
        text = None
    if text is None or not re.fullmatch(pattern, text):
        raise ValueError(f"no text is known that matches {pattern!r}")
    return text


class _Pattern:
    """A reader of a pattern that writes the first alternative of everything."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0

    def text(self) -> str:
        text = self._alternatives()
        if self._at < len(self._pattern):
            raise ValueError(f"unbalanced parenthesis in {self._pattern!r}")
        return text

    def _alternatives(self) -> str:
        first = self._sequence()
        while self._next_is("|"):
            self._at += 1
            self._sequence()
        return first

    def _sequence(self) -> str:
        pieces = []
        while self._at < len(self._pattern) and self._pattern[self._at] not in "|)":
            piece = self._atom()
            pieces.append(piece * self._repeats())
        return "".join(pieces)

    def _next_is(self, character: str) -> bool:
        return self._pattern[self._at : self._at + 1] == character

    def _take(self) -> str:
        if self._at >= len(self._pattern):
            raise ValueError(f"{self._pattern!r} ends too early")
        self._at += 1
        return self._pattern[self._at - 1]

    def _repeats(self) -> int:
        found = _QUANTIFIER.match(self._pattern, self._at)
        if found is None:
            return 1
        self._at = found.end()
        least = {"*": 0, "?": 0, "+": 1}.get(found[1][0])
        return int(found[2] or 0) if least is None else least

    def _atom(self) -> str:
        match self._take():
            case "(":
                return self._group()
            case "[":
                return self._class()
            case "\\":
                return self._escape()
            case "^" | "$":
                return ""
            case ".":
                return "a"
            case literal:
                return literal

    def _group(self) -> str:
        head = re.compile(r"\?(:|P<\w+>)|(?!\?)").match(self._pattern, self._at)
        if head is None:
            raise ValueError(f"{self._pattern!r} uses a group that is not understood")
        self._at = head.end()
        text = self._alternatives()
        if self._take() != ")":
            raise ValueError(f"unbalanced parenthesis in {self._pattern!r}")
        return text

    def _escape(self) -> str:
        letter = self._take()
        if letter in _BOUNDARIES:
            return ""
        if letter in "xuU":
            width = {"x": 2, "u": 4, "U": 8}[letter]
            digits = "".join(self._take() for _ in range(width))
            return chr(int(digits, 16))
        return _CLASS_SAMPLES.get(letter) or _CONTROL.get(letter) or letter

    def _class(self) -> str:
        start = self._at - 1
        if self._next_is("^"):
            self._at += 1
        if self._next_is("]"):
            self._at += 1
        while (character := self._take()) != "]":
            if character == "\\":
                self._take()
        one = re.compile(self._pattern[start : self._at])
        own = self._pattern[start + 1 : self._at - 1]
        return next(c for c in _CANDIDATES + own if one.fullmatch(c))


def json_instance(schema_text: str) -> str:
    """Return the JSON text of a small value that fits the schema in *schema_text*.

    Raises:
        ValueError: the schema is not JSON, or refers to what it does not hold.
    """
    schema = json.loads(schema_text)
    return json.dumps(_Schema(schema).value(schema), ensure_ascii=False)


class _Schema:
    """A reader of a schema that gives the least value of each part."""

    def __init__(self, root: object) -> None:
        self._root = root

    def value(self, schema: object) -> object:
        if not isinstance(schema, Mapping):
            return None
        if "$ref" in schema:
            return self.value(self._resolve(str(schema["$ref"])))
        for key, first in (("const", False), ("enum", True), ("examples", True)):
            if key in schema:
                return schema[key][0] if first else schema[key]
        for key in ("anyOf", "oneOf"):
            if key in schema:
                return self.value({**_without(schema, key), **dict(schema[key][0])})
        if "allOf" in schema:
            return self.value(self._merged(schema))
        return self._typed(schema)

    def _typed(self, schema: Mapping[str, object]) -> object:
        match _type_of(schema):
            case "object":
                return dict(self._members(schema))
            case "array":
                return list(self._items(schema))
            case "string":
                return _string(schema)
            case "integer" | "number" as name:
                return _number(schema, whole=name == "integer")
            case "boolean":
                return False
            case _:
                return None

    def _members(self, schema: Mapping[str, object]) -> Iterator[tuple[str, object]]:
        properties = schema.get("properties")
        known = properties if isinstance(properties, Mapping) else {}
        for name in _items_of(schema.get("required")):
            yield str(name), self.value(known.get(name, {}))

    def _items(self, schema: Mapping[str, object]) -> Iterator[object]:
        first = _items_of(schema.get("prefixItems"))
        for position in range(_whole(schema.get("minItems", 0))):
            inside = position < len(first)
            yield self.value(first[position] if inside else schema.get("items"))

    def _resolve(self, reference: str) -> object:
        found = self._root
        for part in reference.removeprefix("#").strip("/").split("/"):
            name = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, Mapping) or (name and name not in found):
                raise ValueError(f"the schema has no {reference!r}")
            found = found[name] if name else found
        return found

    def _merged(self, schema: Mapping[str, object]) -> dict[str, object]:
        merged: dict[str, object] = _without(schema, "allOf")
        for part in _items_of(schema["allOf"]):
            given = part
            if isinstance(part, Mapping) and "$ref" in part:
                given = self._resolve(str(part["$ref"]))
            for key, value in given.items() if isinstance(given, Mapping) else ():
                merged[key] = _joined(merged.get(key), value)
        return merged


def _items_of(given: object) -> list[object]:
    return given if isinstance(given, list) else []


def _joined(old: object, new: object) -> object:
    if isinstance(old, dict) and isinstance(new, dict):
        return {**old, **new}
    if isinstance(old, list) and isinstance(new, list):
        return [*old, *new]
    return new


def _without(schema: Mapping[str, object], key: str) -> dict[str, object]:
    return {name: value for name, value in schema.items() if name != key}


def _type_of(schema: Mapping[str, object]) -> str:
    named = schema.get("type")
    if isinstance(named, list) and named:
        named = named[0]
    if named is not None:
        return str(named)
    for key, name in _TYPE_BY_KEY.items():
        if key in schema:
            return name
    return "null"


_TYPE_BY_KEY = {
    "properties": "object",
    "required": "object",
    "items": "array",
    "prefixItems": "array",
    "pattern": "string",
    "minLength": "string",
    "minimum": "number",
}
_FORMATS = {
    "date": "2024-01-31",
    "date-time": "2024-01-31T12:00:00Z",
    "time": "12:00:00Z",
    "email": "someone@example.com",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}


def _string(schema: Mapping[str, object]) -> str:
    if "pattern" in schema:
        return regex_instance(str(schema["pattern"]))
    text = _FORMATS.get(str(schema.get("format")), "text")
    most = _whole(schema.get("maxLength", len(text)))
    return text[:most].ljust(_whole(schema.get("minLength", 0)), "x")


def _whole(value: object) -> int:
    return int(value) if isinstance(value, int | float) else 0


def _number(schema: Mapping[str, object], *, whole: bool) -> float:
    step = schema.get("multipleOf", 1)
    step = step if isinstance(step, int | float) else 1
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum", schema.get("exclusiveMaximum"))
    number: float = 0
    if isinstance(low, int | float) and low >= 0:
        number = -(-low // step) * step
        number += step if number == schema.get("exclusiveMinimum") else 0
    elif isinstance(high, int | float) and high <= 0:
        number = high // step * step
        number -= step if number == schema.get("exclusiveMaximum") else 0
    return int(number) if whole else number
