"""The objects that a JSON schema asks for, as the grammar engine reads them.

The engine holds a name to ``properties`` or to ``patternProperties``, not to both; it
may write a further name twice, and, beside names that are declared, spelled with
escapes, as which a declared one could come again.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from sglrun.errors import UnsupportedFeatureError

_JOINING = frozenset({"anyOf", "oneOf", "$ref"})
_OF_OBJECTS = frozenset(
    {
        "properties",
        "required",
        "additionalProperties",
        "minProperties",
        "maxProperties",
        "const",
        "enum",
    }
)


def with_names_once(schema: dict[str, Any]) -> dict[str, Any]:
    """Return *schema* with all that holds for a declared name at that name.

    Raises:
        UnsupportedFeatureError: a name that is written twice would count twice, or a
            pattern cannot be read.
    """
    _refuse_uncounted(schema)
    properties = _dict(schema, "properties")
    patterns = _dict(schema, "patternProperties")
    if not (properties and patterns):
        return schema
    readers = {pattern: _reader(pattern) for pattern in patterns}
    written = {
        name: _all_of(part, [patterns[p] for p, x in readers.items() if x.search(name)])
        for name, part in properties.items()
    }
    return {**schema, "properties": written}


def with_plain_names(schema: dict[str, Any]) -> dict[str, Any]:
    """Return *schema* with a pattern for the names beyond the declared ones.

    The engine keeps declared names out of a pattern, and spells what a pattern admits
    without needless escapes. Only for a schema that ``is_simple``.
    """
    further = schema.get("additionalProperties", True)
    if further is False or not {"properties", "required"} & set(schema):
        return schema
    return {
        **schema,
        "patternProperties": {"^": further},
        "additionalProperties": False,
    }


def is_simple(schema: object) -> bool:
    """Return whether no two parts of *schema* must hold for the same object.

    Where two must, the engine puts their patterns together without a look at what
    either forbids.
    """
    return not any(
        {"allOf", "patternProperties"} & part.keys()
        or len(_JOINING & part.keys()) > 1
        or (_JOINING & part.keys() and _OF_OBJECTS & part.keys())
        or ({"const", "enum"} & part.keys() and len(_OF_OBJECTS & part.keys()) > 1)
        for part in _parts(schema)
    )


def _parts(value: object) -> Iterator[Mapping[str, Any]]:
    """Yield every mapping within *value*, itself too."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            yield part
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(part)


def _refuse_uncounted(schema: Mapping[str, Any]) -> None:
    least, required = schema.get("minProperties"), schema.get("required")
    needed = len(set(map(str, required))) if isinstance(required, list) else 0
    is_open = schema.get("additionalProperties") is not False
    has_more = is_open or _dict(schema, "patternProperties")
    if isinstance(least, int) and least > needed + 1 and has_more:
        raise UnsupportedFeatureError(
            f"'local' cannot follow minProperties {least}: beyond the {needed} "
            "required names, one may be written twice; require names, or one more"
        )


def _reader(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern, re.ASCII)  # as ECMA 262 reads \d and \w
    except re.error as exc:
        raise UnsupportedFeatureError(
            f"'local' cannot follow the name {pattern!r} in patternProperties beside "
            f"properties: {exc}"
        ) from exc


def _all_of(part: Any, more: list[Any]) -> Any:
    return {"allOf": [part, *more]} if more else part


def _dict(schema: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = schema.get(key)
    return value if isinstance(value, dict) else {}
