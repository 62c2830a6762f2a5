"""Constraints: what a generation must look like, from Python types and schemas."""

import dataclasses
import json
import re
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

REGEX_INT = r"[-+]?[0-9]+[ \n]*"
REGEX_FLOAT = r"[-+]?[0-9]*\.?[0-9]+[ \n]*"
REGEX_STR = r"\"[\w\d\s]*\""
REGEX_BOOL = r"(True|False)"

Value = str | int | float | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Dtype:
    """A Python type that a generation is to spell, as a pattern and stop strings."""

    name: str
    regex: str
    stop: tuple[str, ...] = ()

    def parse(self, text: str) -> Value:
        """Return *text* as a value of this type.

        Raises:
            ValueError: *text* does not spell one.
        """
        if not re.fullmatch(self.regex, text):
            raise ValueError(f"{text!r} is not {self.name}")
        match self.name:
            case "int":
                return int(text)
            case "float":
                return float(text)
            case "bool":
                return text == "True"
            case _:
                return text[1:-1]


DTYPES: Mapping[str, Dtype] = {
    dtype.name: dtype
    for dtype in (
        Dtype(name="int", regex=REGEX_INT, stop=(" ", "\n")),
        Dtype(name="float", regex=REGEX_FLOAT, stop=(" ", "\n")),
        Dtype(name="str", regex=REGEX_STR),
        Dtype(name="bool", regex=REGEX_BOOL),
    )
}


def dtype_of(given: object) -> Dtype:
    """Return the dtype that an author named by a type or its name.

    Raises:
        ValueError: it is none of int, float, str, bool.
    """
    name = given.__name__ if isinstance(given, type) else given
    dtype = DTYPES.get(name) if isinstance(name, str) else None
    if dtype is None:
        raise ValueError(f"unknown dtype {name!r} (one of: {', '.join(DTYPES)})")
    return dtype


def check_regex(pattern: str) -> str:
    """Return *pattern* if Python's ``re`` can read it.

    Raises:
        re.error: it cannot.
    """
    try:
        re.compile(pattern)
    except re.error as exc:
        said = f"regex {pattern!r} is no pattern: {exc.msg}"
        raise re.error(said, pattern, exc.pos) from exc
    return pattern


def choices_regex(choices: Iterable[str]) -> str:
    """Return a pattern that matches exactly one of *choices*."""
    return "(" + "|".join(re.escape(choice) for choice in choices) + ")"


def json_schema_text(given: object) -> str:
    """Return the JSON text of a schema given as a dict, a string or a class.

    A class is a dataclass or anything with pydantic's ``model_json_schema``.

    Raises:
        TypeError: *given* is none of these, or not the text of an object, or a field's
            type has no schema.
        ValueError: a string that is not JSON.
    """
    if isinstance(given, str):
        try:
            schema = json.loads(given)
        except ValueError as exc:
            raise ValueError(f"json_schema is not JSON: {exc}") from exc
    elif isinstance(given, Mapping):
        schema = dict(given)
    else:
        schema = _class_schema(given)
    if not isinstance(schema, dict | bool):
        raise TypeError(f"json_schema must be an object, not {schema!r}")
    return json.dumps(schema, ensure_ascii=False)


def _class_schema(given: object) -> object:
    pydantic_schema = getattr(given, "model_json_schema", None)
    if pydantic_schema is not None:
        return _closed(pydantic_schema())
    if isinstance(given, type) and dataclasses.is_dataclass(given):
        return _dataclass_schema(given, ())
    raise TypeError(
        "json_schema takes a dict, JSON text, a dataclass or a pydantic model, "
        f"not {given!r}"
    )


def _closed(schema: object) -> object:
    """Return *schema* with objects of their own properties only.

    pydantic leaves open whether there are others, and drops them when it reads; servers
    do not agree about what to make of that. A model that keeps others says so.
    """
    if isinstance(schema, list):
        return [_closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: _closed(value) for key, value in schema.items()}
    if schema.get("type") == "object" and "properties" in schema:
        inner.setdefault("additionalProperties", False)
    return inner


def _dataclass_schema(cls: type, around: tuple[type, ...]) -> dict[str, object]:
    if cls in around:  # a schema without an end, for which no grammar is built
        raise TypeError(f"no JSON schema is known for {cls!r}, which contains itself")
    hints = typing.get_type_hints(cls)
    names = [field.name for field in dataclasses.fields(cls)]
    return {
        "type": "object",
        "properties": {
            name: _type_schema(hints[name], (*around, cls)) for name in names
        },
        "required": names,
        "additionalProperties": False,
    }


_SIMPLE: Mapping[object, dict[str, object]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
}


def _type_schema(hint: object, around: tuple[type, ...]) -> dict[str, object]:
    if hint in _SIMPLE:
        return dict(_SIMPLE[hint])
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return _dataclass_schema(hint, around)
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return {"enum": list(args)}
    if _is_array(origin, args):
        return {"type": "array", "items": _type_schema(args[0], around)}
    if origin is dict and args:
        values = _type_schema(args[1], around)
        return {"type": "object", "additionalProperties": values}
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [_type_schema(arg, around) for arg in args]}
    raise TypeError(f"no JSON schema is known for the type {hint!r}")


def _is_array(origin: object, args: tuple[object, ...]) -> bool:
    if origin is tuple:  # ``tuple[int, str]`` is no array of one kind
        return args[1:] == (Ellipsis,)
    return origin in (list, set, frozenset) and bool(args)
