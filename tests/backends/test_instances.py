"""Instances of patterns and schemas."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglrun.backends.instances import json_instance, regex_instance
from sglrun.lang.constraints import DTYPES, choices_regex


@pytest.mark.parametrize(
    "pattern",
    [
        *(dtype.regex for dtype in DTYPES.values()),
        r"((25[0-5]|2[0-4]\d|[01]?\d\d?).){3}(25[0-5]|2[0-4]\d|[01]?\d\d?)",
        r"[0-9]{3}-[0-9]{4}",
        r"(?:yes|no)(?P<mark>[.!])?",
        r"[^a1]+\s\S{2,}",
        r"^\x41\.\t$",
        r"[\]x]{2,3}?",
        r"",
    ],
)
def test_an_instance_matches_its_pattern(pattern: str) -> None:
    """The text written for a pattern is matched by it as a whole."""
    assert re.fullmatch(pattern, regex_instance(pattern))


@given(st.lists(st.text(min_size=1), min_size=1))
def test_the_first_choice_is_an_instance(choices: list[str]) -> None:
    """The pattern of several choices has the first of them as its instance."""
    assert regex_instance(choices_regex(choices)) == choices[0]


@pytest.mark.parametrize("pattern", [r"(?=b)a", r"(a)b\1", r"[^\s\S]", r"a(?!b)"])
def test_a_pattern_without_a_known_instance_is_an_error(pattern: str) -> None:
    """What the writer does not understand is refused, never answered wrongly."""
    with pytest.raises(ValueError, match=r"no text is known|not understood"):
        regex_instance(pattern)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "object", "properties": {"a": {"type": "integer"}}}, {}),
        ({"required": ["a"], "properties": {"a": {"type": "integer"}}}, {"a": 0}),
        ({"type": "integer", "minimum": 3}, 3),
        ({"type": "integer", "exclusiveMinimum": 3}, 4),
        ({"type": "number", "maximum": -2.5, "multipleOf": 0.5}, -2.5),
        ({"type": "array", "items": {"type": "boolean"}, "minItems": 2}, [False] * 2),
        ({"prefixItems": [{"const": "x"}], "type": "array", "minItems": 1}, ["x"]),
        ({"enum": ["b", "a"]}, "b"),
        ({"type": ["null", "string"]}, None),
        ({"type": "string", "pattern": "[0-9]{2}"}, "11"),
        ({"type": "string", "maxLength": 2}, "te"),
        ({"type": "string", "minLength": 6}, "textxx"),
        ({"type": "string", "format": "date"}, "2024-01-31"),
        ({"anyOf": [{"type": "null"}, {"type": "string"}]}, None),
        (
            {"$ref": "#/$defs/p", "$defs": {"p": {"const": 7}}},
            7,
        ),
        (
            {
                "allOf": [
                    {"properties": {"a": {"const": 1}}, "required": ["a"]},
                    {"properties": {"b": {"const": 2}}, "required": ["b"]},
                ]
            },
            {"a": 1, "b": 2},
        ),
        (True, None),
    ],
)
def test_an_instance_fits_its_schema(schema: object, value: object) -> None:
    """The value written for a schema is the least that fits it."""
    assert json.loads(json_instance(json.dumps(schema))) == value


def test_a_reference_to_nothing_is_an_error() -> None:
    """A reference that the schema does not hold is named."""
    with pytest.raises(ValueError, match=r"#/\$defs/gone"):
        json_instance('{"$ref": "#/$defs/gone"}')
