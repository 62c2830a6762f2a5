"""Patterns of schemas."""

import json
import re

import pytest

from sglrun.lang.schema_pattern import schema_pattern

SHAPE = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 5},
        "age": {"type": "integer"},
        "height": {"type": "number"},
        "alive": {"type": "boolean"},
        "house": {"enum": ["a b", "c.d", 3, None]},
        "kind": {"const": "x"},
        "code": {"type": "string", "pattern": "^[A-Z]{2}$"},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
        "wand": {"$ref": "#/$defs/Wand"},
        "pet": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/Wand"}]},
        "more": {"type": ["string", "null"]},
        "only": {"allOf": [{"type": "null"}]},
    },
    "$defs": {
        "Wand": {"type": "object", "properties": {"core": {"type": "string"}}},
    },
}
VALUE = {
    "name": 'A"\u00e9',
    "age": -7,
    "height": 1.5e-3,
    "alive": True,
    "house": "c.d",
    "kind": "x",
    "code": "AB",
    "tags": ["one", ""],
    "wand": {"core": "x\n"},
    "pet": None,
    "more": None,
    "only": None,
}


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_a_value_of_the_schema_matches(separators: tuple[str, str]) -> None:
    """JSON that fits matches, tight or with a space."""
    text = json.dumps(VALUE, separators=separators)

    assert re.fullmatch(schema_pattern(json.dumps(SHAPE)), text)


@pytest.mark.parametrize(
    "change",
    [
        {"name": ""},
        {"name": "longer"},
        {"age": 1.5},
        {"age": "1"},
        {"alive": 1},
        {"house": "cxd"},
        {"kind": "y"},
        {"code": "abc"},
        {"tags": ["a", "b", "c"]},
        {"tags": [1]},
        {"wand": {}},
        {"pet": 5},
    ],
    ids=str,
)
def test_a_value_that_does_not_fit_does_not_match(change: dict[str, object]) -> None:
    """Each constraint holds."""
    text = json.dumps(VALUE | change)

    assert not re.fullmatch(schema_pattern(json.dumps(SHAPE)), text)


@pytest.mark.parametrize(
    ("bounds", "matching"),
    [
        ({}, {0, 1, 2, 3}),
        ({"minItems": 1}, {1, 2, 3}),
        ({"minItems": 2}, {2, 3}),
        ({"minItems": 1, "maxItems": 2}, {1, 2}),
        ({"maxItems": 0}, {0}),
        ({"maxItems": 1}, {0, 1}),
    ],
    ids=str,
)
def test_lists_have_their_bounds(bounds: dict[str, int], matching: set[int]) -> None:
    """As many items match as the schema allows."""
    schema = {"type": "array", "items": {"type": "null"}, **bounds}
    pattern = schema_pattern(json.dumps(schema))

    assert {
        count for count in range(4) if re.fullmatch(pattern, json.dumps([None] * count))
    } == matching


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({}, "no pattern says the schema"),
        (True, "no pattern says the schema True"),
        ({"type": "object"}, "no pattern says the schema"),
        ({"type": "array"}, "no pattern says the schema None"),
        ({"$ref": "#/$defs/a"}, "the schema has no '#/\\$defs/a'"),
        (
            {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}},
            "holds itself",
        ),
    ],
    ids=str,
)
def test_what_no_pattern_says_is_refused(schema: object, message: str) -> None:
    """An open or endless schema is named."""
    with pytest.raises(ValueError, match=message):
        schema_pattern(json.dumps(schema))
