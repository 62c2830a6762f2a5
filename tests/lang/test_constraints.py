"""Constraints: dtypes, patterns and schemas."""

import json
import re
import typing
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglrun.lang.constraints import (
    DTYPES,
    check_regex,
    choices_regex,
    dtype_of,
    json_schema_text,
)


@pytest.mark.parametrize(
    "given_type", [int, float, str, bool, "int", "float", "str", "bool"]
)
def test_a_dtype_is_a_type_or_its_name(given_type: object) -> None:
    """Types and their names are the same dtype."""
    name = given_type if isinstance(given_type, str) else given_type.__name__  # type: ignore[attr-defined]

    assert dtype_of(given_type) is DTYPES[name]


@pytest.mark.parametrize("wrong", [dict, "dict", "Int", 5, None, list[int]])
def test_another_dtype_is_refused_by_name(wrong: object) -> None:
    """What is no dtype is refused with those that are."""
    with pytest.raises(ValueError, match="one of: int, float, str, bool"):
        dtype_of(wrong)


@given(st.integers(), st.sampled_from(["", " ", "\n \n"]))
def test_integers_are_read_back(number: int, end: str) -> None:
    """Every integer fits the pattern and is read as itself."""
    assert dtype_of(int).parse(f"{number}{end}") == number


@given(st.decimals(-1000, 1000, places=4).map(float))
def test_floats_are_read_back(number: float) -> None:
    """A number with a point is read as itself."""
    assert dtype_of(float).parse(f"{number:.4f}") == number


@given(st.booleans())
def test_truth_is_read_back(value: bool) -> None:  # noqa: FBT001 - drawn
    """Both truth values are read as themselves."""
    assert dtype_of(bool).parse(str(value)) is value


def test_a_string_loses_its_quotes() -> None:
    """A quoted string is read as what stands between the quotes."""
    assert dtype_of(str).parse('"two words"') == "two words"


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("int", "4.5"),
        ("int", ""),
        ("int", "-"),
        ("float", "."),
        ("float", "1e5"),
        ("bool", "true"),
        ("str", "bare"),
        ("str", '"a-b"'),
    ],
)
def test_a_text_of_another_type_is_named(kind: str, text: str) -> None:
    """A text that does not spell the type is refused with the text."""
    with pytest.raises(ValueError, match=re.escape(f"{text!r} is not {kind}")):
        dtype_of(kind).parse(text)


def test_only_numbers_stop_at_white_space() -> None:
    """Numbers end at a space or a line's end; strings may hold them."""
    assert {name: dtype.stop for name, dtype in DTYPES.items()} == {
        "int": (" ", "\n"),
        "float": (" ", "\n"),
        "str": (),
        "bool": (),
    }


def test_a_wrong_pattern_is_refused() -> None:
    """A pattern that Python cannot read is refused at once, and shown."""
    with pytest.raises(re.error, match=r"regex '\(' is no pattern: .* at position 0"):
        check_regex("(")

    assert check_regex("(a)") == "(a)"


@given(st.lists(st.text(min_size=1), min_size=1, max_size=5), st.text())
def test_a_pattern_of_choices_matches_exactly_these(
    choices: list[str], other: str
) -> None:
    """The pattern matches every choice and nothing else."""
    pattern = choices_regex(choices)

    assert all(re.fullmatch(pattern, choice) for choice in choices)
    assert bool(re.fullmatch(pattern, other)) == (other in choices)


SCHEMA: dict[str, object] = {"type": "object", "properties": {"ä": {"type": "string"}}}


def test_a_schema_may_be_a_dict_or_its_text() -> None:
    """A dict and its JSON text give the same text."""
    assert json_schema_text(SCHEMA) == json_schema_text(json.dumps(SCHEMA))
    assert json.loads(json_schema_text(SCHEMA)) == SCHEMA
    assert json_schema_text("true") == "true"


def test_a_text_that_is_no_json_is_refused() -> None:
    """A broken schema is refused with what is wrong in it."""
    with pytest.raises(ValueError, match="json_schema is not JSON: Expecting"):
        json_schema_text('{"type": ')


@pytest.mark.parametrize("wrong", ["[1]", '"object"', "5"])
def test_a_text_that_is_no_object_is_refused(wrong: str) -> None:
    """JSON of another kind is no schema."""
    with pytest.raises(TypeError, match="must be an object"):
        json_schema_text(wrong)


@dataclass
class Line:
    """An order's line."""

    name: str
    amount: float


@dataclass
class Order:
    """Every kind of field."""

    number: int
    paid: bool
    lines: list[Line]
    kind: typing.Literal["new", "old"]
    note: str | None = None
    counts: dict[str, int] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    other: "typing.Optional[Line]" = None  # noqa: UP045 - the old spelling counts too


LINE_SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "amount": {"type": "number"}},
    "required": ["name", "amount"],
    "additionalProperties": False,
}


def test_a_dataclass_is_a_schema() -> None:
    """A dataclass gives an object whose fields have their types, nested ones too."""
    schema = json.loads(json_schema_text(Order))

    assert schema["properties"] == {
        "number": {"type": "integer"},
        "paid": {"type": "boolean"},
        "lines": {"type": "array", "items": LINE_SCHEMA},
        "kind": {"enum": ["new", "old"]},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        "tags": {"type": "array", "items": {"type": "string"}},
        "other": {"anyOf": [LINE_SCHEMA, {"type": "null"}]},
    }
    assert schema["required"] == list(schema["properties"])


def test_anything_like_pydantic_is_a_schema() -> None:
    """A class that gives its own JSON schema is asked; its objects are closed."""
    kept = {"type": "object", "properties": {}, "additionalProperties": True}
    inside = {"$defs": {"In": SCHEMA}, "anyOf": [SCHEMA, kept, {"type": "object"}]}

    class Model:
        @classmethod
        def model_json_schema(cls) -> dict[str, object]:
            return SCHEMA | inside

    closed = SCHEMA | {"additionalProperties": False}
    assert json.loads(json_schema_text(Model)) == closed | {
        "$defs": {"In": closed},
        "anyOf": [closed, kept, {"type": "object"}],
    }


@pytest.mark.parametrize("wrong", [5, int, ["a"], Line("x", 1.0)])
def test_what_is_no_schema_is_refused(wrong: object) -> None:
    """Other objects, a dataclass's instance among them, are refused."""
    with pytest.raises(TypeError, match="json_schema takes"):
        json_schema_text(wrong)


@dataclass
class Pair:
    """A tuple of two kinds."""

    pair: tuple[int, str]


@dataclass
class Strange:
    """A type without a schema."""

    value: complex


@dataclass
class Tree:
    """A type that contains itself."""

    left: "Tree | None"


@pytest.mark.parametrize("wrong", [Pair, Strange, Tree])
def test_a_field_without_a_schema_is_refused(wrong: type) -> None:
    """A field whose type no schema tells exactly is refused, never bent."""
    with pytest.raises(TypeError, match="no JSON schema is known"):
        json_schema_text(wrong)
