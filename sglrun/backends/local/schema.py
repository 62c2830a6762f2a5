"""The JSON schema of a request, from what people write into what the engine reads.

The engine refuses what it cannot follow. Two things that real schemas are full of mean
the same in words that it knows: one of several schemas that exclude each other is any
of them, and a format is a pattern, or, where JSON Schema does not define it, a remark.
What it would follow by halves, ``multiples`` and ``objects`` write anew or refuse.
"""

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from sglrun.backends.local.formats import KNOWN, PATTERNS
from sglrun.backends.local.multiples import with_multiples_below_zero
from sglrun.backends.local.objects import (
    is_simple,
    with_names_once,
    with_plain_names,
)
from sglrun.errors import BadRequestError

# JSON as ``json.dumps`` writes it: without this, the model may add white space
# wherever JSON allows it, and a weak one does so for ever.
_SPACING = {
    "whitespace_flexible": False,
    "item_separator": ", ",
    "key_separator": ": ",
}

# Keywords whose value is a schema, a list of them, or names with schemas.
_ONE = frozenset(
    {"additionalProperties", "items", "contains", "not", "if", "then", "else"}
)
_SEVERAL = frozenset({"allOf", "anyOf", "oneOf", "prefixItems", "items"})
_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions"})

_DEPTH = 8  # of schemas looked into for a proof
_TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")


def engine_schema(text: str) -> str:
    """Return the schema *text* as the engine reads it; it admits the same JSON.

    Raises:
        BadRequestError: *text* is no schema.
        UnsupportedFeatureError: the engine would follow it by halves.
    """
    try:
        schema = json.loads(text)
    except ValueError as exc:
        raise BadRequestError(f"json_schema is not JSON: {exc}") from exc
    if schema is True:
        schema = {}
    if not isinstance(schema, dict):
        raise BadRequestError(f"json_schema must be an object, not {text}")
    written = _Writer(schema).schema(schema)
    return json.dumps({**written, "x-guidance": _SPACING}, ensure_ascii=False)


class _Writer:
    """Writes the parts of one schema."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._is_simple = is_simple(root)

    def schema(self, schema: Any) -> Any:
        if not isinstance(schema, dict):
            return schema
        written = {key: self._value(key, value) for key, value in schema.items()}
        written = with_names_once(with_multiples_below_zero(written))
        if self._is_simple:
            written = with_plain_names(written)
        return self._without_one_of(_with_plain_format(written))

    def _value(self, key: str, value: Any) -> Any:
        if key in _NAMED and isinstance(value, dict):
            return {name: self.schema(part) for name, part in value.items()}
        if key in _SEVERAL and isinstance(value, list):
            return [self.schema(part) for part in value]
        return self.schema(value) if key in _ONE else value

    def _without_one_of(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return *schema* with ``anyOf`` for a ``oneOf`` that cannot match twice."""
        parts = schema.get("oneOf")
        if not isinstance(parts, list) or "anyOf" in schema:
            return schema
        if not all(itertools.starmap(self._exclude, itertools.combinations(parts, 2))):
            return schema
        rest = {key: value for key, value in schema.items() if key != "oneOf"}
        return {**rest, "anyOf": parts}

    def _exclude(self, one: Any, other: Any, depth: int = _DEPTH) -> bool:
        """Return whether it is sure that no value suits both."""
        one, other = self._resolved(one), self._resolved(other)
        if one is False or other is False:
            return True
        if not (isinstance(one, dict) and isinstance(other, dict) and depth):
            return False
        if not _overlap(_types(one), _types(other)):
            return True
        values, others = _values(one), _values(other)
        if values is not None and others is not None:
            return not set(values) & set(others)
        return self._differ_in_a_property(one, other, depth - 1)

    def _differ_in_a_property(
        self, one: Mapping[str, Any], other: Mapping[str, Any], depth: int
    ) -> bool:
        """Return whether both are objects that must tell themselves apart."""
        if {*_types(one), *_types(other)} != {"object"}:
            return False
        needed, others = _required(one), _required(other)
        if any(_forbids(other, name) for name in needed):
            return True
        if any(_forbids(one, name) for name in others):
            return True
        return any(
            self._exclude(_property(one, name), _property(other, name), depth)
            for name in needed & others
        )

    def _resolved(self, schema: Any) -> Any:
        """Return what *schema* refers to within the whole, if it only refers."""
        for _ in range(_DEPTH):
            target = schema.get("$ref") if isinstance(schema, dict) else None
            if not isinstance(target, str):
                return schema
            schema = self._at(target)
        return None

    def _at(self, pointer: str) -> Any:
        """Return the part at *pointer* (RFC 6901, in a fragment), None elsewhere."""
        if pointer != "#" and not pointer.startswith("#/"):
            return None
        part: Any = self._root
        for written in unquote(pointer).split("/")[1:]:
            name = written.replace("~1", "/").replace("~0", "~")
            part = part.get(name) if isinstance(part, dict) else None
        return part


def _with_plain_format(schema: dict[str, Any]) -> dict[str, Any]:
    """Return *schema* with a pattern for a format, where there is one.

    A format that JSON Schema does not define is a remark (2020-12, Validation, 7.2.3).
    """
    name = schema.get("format")
    if not isinstance(name, str):
        return schema
    kept = {key: schema[key] for key in schema if key != "format" or name in KNOWN}
    pattern = PATTERNS.get(name)
    if pattern is None:
        return kept
    return {**kept, "allOf": [*_list(kept, "allOf"), {"pattern": pattern}]}


def _types(schema: Mapping[str, Any]) -> Sequence[str]:
    given = schema.get("type")
    if isinstance(given, str):
        return (given,)
    return tuple(map(str, given)) if isinstance(given, list) else _TYPES


def _required(schema: Mapping[str, Any]) -> set[str]:
    return set(map(str, _list(schema, "required")))


def _property(schema: Mapping[str, Any], name: str) -> Any:
    return _dict(schema, "properties").get(name, True)


def _forbids(schema: Mapping[str, Any], name: str) -> bool:
    """Return whether it is sure that no object with *name* suits."""
    return (
        schema.get("additionalProperties") is False
        and "patternProperties" not in schema
        and name not in _dict(schema, "properties")
    )


def _list(schema: Mapping[str, Any], key: str) -> Sequence[Any]:
    value = schema.get(key)
    return value if isinstance(value, list) else ()


def _dict(schema: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = schema.get(key)
    return value if isinstance(value, dict) else {}


def _overlap(types: Sequence[str], others: Sequence[str]) -> bool:
    def widened(names: Sequence[str]) -> set[str]:
        return {*names, "integer"} if "number" in names else set(names)

    return bool(widened(types) & widened(others))


def _values(schema: Mapping[str, Any]) -> Sequence[str] | None:
    """Return the only values that suit, written so that equal ones are equal."""
    if "const" in schema:
        return (_written(schema["const"]),)
    if "enum" in schema:
        return [_written(value) for value in _list(schema, "enum")]
    return None


def _written(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value, sort_keys=True)
