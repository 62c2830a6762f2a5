"""A pattern of the JSON texts that fit a schema, for servers that take patterns only.

Properties come in the order of the schema, all of them; a space may follow ``:`` and
``,``. A schema that no pattern can say, such as one that holds itself, is refused.
"""

import json
import re
from collections.abc import Iterable, Mapping

_SPACE = "[ ]?"
_CHARACTER = r'(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})'
_INTEGER = r"-?(?:0|[1-9][0-9]*)"
_NUMBER = rf"{_INTEGER}(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_PLAIN = {
    "integer": _INTEGER,
    "number": _NUMBER,
    "boolean": "(?:true|false)",
    "null": "null",
}


def schema_pattern(schema_text: str) -> str:
    """Return a pattern of the JSON that fits the schema in *schema_text*.

    Raises:
        ValueError: no pattern says it.
    """
    schema = json.loads(schema_text)
    return _Reader(schema).pattern(schema, ())


class _Reader:
    def __init__(self, root: object) -> None:
        self._root = root

    def pattern(self, schema: object, within: tuple[str, ...]) -> str:
        if not isinstance(schema, Mapping):
            raise _no_pattern(schema)
        if "$ref" in schema:
            return self._referred(str(schema["$ref"]), within)
        if "const" in schema:
            return _literal(schema["const"])
        if "enum" in schema:
            return _one_of(_literal(value) for value in schema["enum"])
        for key in ("anyOf", "oneOf"):
            if key in schema:
                return _one_of(self.pattern(each, within) for each in schema[key])
        if len(schema.get("allOf", ())) == 1:
            return self.pattern(schema["allOf"][0], within)
        return self._typed(schema, within)

    def _referred(self, address: str, within: tuple[str, ...]) -> str:
        if address in within:
            raise ValueError(f"no pattern says a schema that holds itself: {address!r}")
        found = self._root
        for key in address.removeprefix("#/").split("/"):
            if not isinstance(found, Mapping) or key not in found:
                raise ValueError(f"the schema has no {address!r}")
            found = found[key]
        return self.pattern(found, (*within, address))

    def _typed(self, schema: Mapping[str, object], within: tuple[str, ...]) -> str:
        kind = schema.get("type")
        if isinstance(kind, list):
            each = ({**schema, "type": one} for one in kind)
            return _one_of(self._typed(one, within) for one in each)
        if kind == "object":
            return self._object(schema, within)
        if kind == "array":
            return self._array(schema, within)
        if kind == "string":
            return _string(schema)
        if kind not in _PLAIN:
            raise _no_pattern(schema)
        return _PLAIN[str(kind)]

    def _object(self, schema: Mapping[str, object], within: tuple[str, ...]) -> str:
        properties = schema.get("properties")
        if not isinstance(properties, Mapping) or not properties:
            raise _no_pattern(schema)
        members = [
            f"{_literal(name)}{_SPACE}:{_SPACE}{self.pattern(value, within)}"
            for name, value in properties.items()
        ]
        inside = f"{_SPACE},{_SPACE}".join(members)
        return rf"\{{{_SPACE}{inside}{_SPACE}\}}"

    def _array(self, schema: Mapping[str, object], within: tuple[str, ...]) -> str:
        item = self.pattern(schema.get("items"), within)
        least, most = _counts(schema, "minItems", "maxItems")
        if most == 0:
            return rf"\[{_SPACE}\]"
        further = _repeat(max(least - 1, 0), None if most is None else most - 1)
        items = f"{item}(?:{_SPACE},{_SPACE}{item}){further}"
        inside = items if least else f"(?:{items})?"
        return rf"\[{_SPACE}{inside}{_SPACE}\]"


def _string(schema: Mapping[str, object]) -> str:
    given = schema.get("pattern")
    if given is not None:
        return f'"(?:{str(given).removeprefix("^").removesuffix("$")})"'
    least, most = _counts(schema, "minLength", "maxLength")
    return f'"{_CHARACTER}{_repeat(least, most)}"'


def _counts(
    schema: Mapping[str, object], least_key: str, most_key: str
) -> tuple[int, int | None]:
    least, most = schema.get(least_key, 0), schema.get(most_key)
    return (
        least if isinstance(least, int) else 0,
        most if isinstance(most, int) else None,
    )


def _repeat(least: int, most: int | None) -> str:
    if most is None:
        return {0: "*", 1: "+"}.get(least, f"{{{least},}}")
    return f"{{{least},{most}}}"


def _literal(value: object) -> str:
    return re.escape(json.dumps(value, ensure_ascii=False)).replace(r"\ ", " ")


def _one_of(patterns: Iterable[str]) -> str:
    return f"(?:{'|'.join(patterns)})"


def _no_pattern(schema: object) -> ValueError:
    return ValueError(f"no pattern says the schema {schema!r}; use json_schema=...")
