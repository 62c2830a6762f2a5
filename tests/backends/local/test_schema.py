"""JSON schemas in the engine's words."""

import json
from contextlib import suppress
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglrun.backends.local.grammar import Grammars
from sglrun.backends.local.schema import engine_schema
from sglrun.backends.local.tokenizer import Tokenizer
from sglrun.errors import BadRequestError, UnsupportedFeatureError


def _tagged(tag: str, **more: object) -> dict[str, object]:
    properties = {"kind": {"const": tag}, **more}
    return {"type": "object", "properties": properties, "required": list(properties)}


_CAT, _DOG = _tagged("cat"), _tagged("dog", age={"type": "integer"})
_OPEN = {"type": "object", "required": ["a"], "properties": {"a": {"type": "null"}}}


def _admits(engine: tuple[Tokenizer, Grammars], schema: object, text: str) -> bool:
    """Return whether the engine may write *text* for *schema*."""
    tokenizer, grammars = engine
    matcher = grammars.matcher("json_schema", engine_schema(json.dumps(schema)))
    for token in tokenizer.encode(text):
        if not matcher.allowed()[token]:
            return False
        matcher.consume(token)
    return matcher.is_complete() or bool(matcher.allowed()[tokenizer.end])


@pytest.mark.parametrize(
    "parts",
    [
        [_CAT, _DOG],
        [{"type": "string"}, {"type": ["null", "integer"]}],
        [{"enum": ["a", 1]}, {"const": "b"}],
        [_closed := {**_OPEN, "additionalProperties": False}, _CAT],
        [False, {}],
        [_tagged("x", pet=_CAT), _tagged("x", pet=_DOG)],
        [{"$ref": "#/$defs/cat~1~0", "title": "a cat"}, {"$ref": "#/$defs/dog"}],
    ],
)
def test_one_of_schemas_that_exclude_each_other_is_any_of_them(
    parts: list[object],
) -> None:
    """``oneOf`` becomes ``anyOf`` where no value can suit two."""
    schema = {"$defs": {"cat/~": _CAT, "dog": _DOG}, "items": {"oneOf": parts}}

    written = json.loads(engine_schema(json.dumps(schema)))

    assert [*written["items"]] == ["anyOf"]


@pytest.mark.parametrize(
    "parts",
    [
        [{"type": "number"}, {"type": "integer"}],
        [{"enum": [1]}, {"const": 1.0}],
        [{"const": {"a": 1, "b": 2}}, {"const": {"b": 2, "a": 1}}],
        [_OPEN, _CAT],
        [{**_CAT, "required": []}, {**_DOG, "required": []}],
        [{**_CAT, "type": ["object", "null"]}, _DOG],
        [{**_closed, "patternProperties": {"k": {}}}, _CAT],
        [{"$ref": "#"}, {"$ref": "#"}],
        [{"$ref": "elsewhere"}, {"type": "string"}],
        [{}, True],
    ],
)
def test_schemas_that_may_both_match_stay(parts: list[object]) -> None:
    """What is not proved is left for the engine to judge."""
    written = json.loads(engine_schema(json.dumps({"oneOf": parts})))

    assert "oneOf" in written


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("uri", ["http://a.b/c?d#e", "urn:isbn:1", "a:", "x://u:p@h:80"], ["b", "a: "]),
        ("uri-reference", ["", "../a", "#x", "//h/p", "http://a"], [":", "%zz", "é"]),
        ("iri", ["http://é.fr/ü"], ["é"]),
        ("json-pointer", ["", "/a~1b//c"], ["a", "/~2"]),
        ("relative-json-pointer", ["0#", "10/a"], ["01", "/a"]),
        (
            "date",
            ["2024-02-29", "2000-02-29", "0004-02-29", "2023-02-19", "2023-10-29"],
            ["2023-02-29", "1900-02-29", "0000-01-01", "0000-02-29", "2023-02-30"],
        ),
        ("hostname", ["a.b", ".".join(["a" * 60] * 4)], [".".join(["a" * 60] * 5)]),
        ("time", ["22:04:59Z", "22:04:00.5+01:00"], ["22:04:60Z", "22:04:00z"]),
        (
            "date-time",
            ["2026-02-28T00:00:00Z", "2024-02-29T12:00:00.5+01:00"],
            ["2026-02-28t00:00:60Z", "2026", "2026-02-29T00:00:00Z"],
        ),
        ("email", ["a@b.co"], ["a"]),
        ("css-color", ["anything"], []),
    ],
)
def test_a_format_is_followed(
    tokenizer_and_grammars: tuple[Tokenizer, Grammars],
    name: str,
    good: list[str],
    bad: list[str],
) -> None:
    """A format that JSON Schema defines is kept; another one is a remark."""
    schema = {"type": "string", "format": name}
    admits = partial(_admits, tokenizer_and_grammars, schema)

    assert [x for x in good if not admits(json.dumps(x, ensure_ascii=False))] == []
    assert [x for x in bad if admits(json.dumps(x, ensure_ascii=False))] == []


@pytest.mark.parametrize("name", ["uri-template", "idn-email", "regex"])
def test_a_format_that_cannot_be_followed_is_refused(
    tokenizer_and_grammars: tuple[Tokenizer, Grammars], name: str
) -> None:
    """A format of the standard is not dropped in silence."""
    _, grammars = tokenizer_and_grammars
    schema = engine_schema(json.dumps({"type": "string", "format": name}))

    with pytest.raises(BadRequestError, match=name):
        grammars.matcher("json_schema", schema)


_NULL, _INTEGER = {"type": "null"}, {"type": "integer"}


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (
            {"type": "integer", "minimum": -100, "maximum": -10, "multipleOf": 10},
            ["-100", "-50", "-10"],
            ["-110", "-5", "0"],
        ),
        (
            {"type": ["integer", "null"], "minimum": -10, "multipleOf": 2.5},
            ["-10", "-5", "0", "5", "1000", "null"],
            ["-15", "-7.5", "-7", "3"],
        ),
        (
            {"type": "number", "exclusiveMinimum": -1, "multipleOf": 0.5},
            ["-0.5", "0.5", "2"],
            ["-1", "-1.0", "-0.3", "0.3"],
        ),
        ({"minimum": -4, "multipleOf": 2}, ["-4", "2", '"a"', "[]"], ["-3", "3"]),
        ({**_INTEGER, "exclusiveMinimum": -1, "multipleOf": 5}, ["0", "5"], ["-1"]),
        ({**_INTEGER, "minimum": 0, "multipleOf": 5}, ["0", "5"], ["-5", "4"]),
    ],
)
def test_multiples_below_zero_are_written(
    tokenizer_and_grammars: tuple[Tokenizer, Grammars],
    schema: object,
    good: list[str],
    bad: list[str],
) -> None:
    """A multiple is one on both sides of zero, within the bounds."""
    admits = partial(_admits, tokenizer_and_grammars, schema)

    assert [text for text in good if not admits(text)] == []
    assert [text for text in bad if admits(text)] == []


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (
            {"properties": {"a": _NULL}, "additionalProperties": _INTEGER},
            ['{"a": null, "b": 1}', '{"b": 1}', "{}"],
            [r'{"\u0061": 1}', '{"a": 1}', '{"a": null, "a": null}'],
        ),
        (
            {"type": "object", "required": ["a"]},
            ['{"a": 1}', '{"a": 1, "b": {"a": 2}}'],
            ['{"b": 1}', r'{"a": 1, "\u0061": 2}'],
        ),
        (
            {
                "properties": {"ab": {"type": ["null", "integer"]}, "c": True},
                "patternProperties": {"^a": _NULL, "^[0-9]": False},
                "additionalProperties": False,
            },
            ['{"ab": null}', '{"ab": null, "c": 3, "ax": null}'],
            ['{"ab": 5}', '{"ab": null, "x": null}'],
        ),
        (
            {"allOf": [{"required": ["a"]}, {"properties": {"b": _NULL}}]},
            ['{"b": null, "a": 1}', '{"a": 1}'],
            ["{}"],
        ),
        (
            {
                "allOf": [
                    {"properties": {"a": _NULL}, "additionalProperties": False},
                    {"properties": {"a": True}},
                ]
            },
            ['{"a": null}', "{}"],
            ['{"z": 1}'],
        ),
        ({"minProperties": 1, "required": []}, ['{"b": 1}'], ["{}"]),
        (
            {
                "minProperties": 2,
                "required": ["a", "b"],
                "additionalProperties": {"type": "null"},
            },
            ['{"a": null, "b": null}'],
            ['{"a": null}', "{}"],
        ),
        (
            {
                "minProperties": 2,
                "properties": {"a": _NULL, "b": _NULL},
                "required": ["a", "b"],
                "additionalProperties": False,
            },
            ['{"a": null, "b": null}'],
            ['{"a": null}'],
        ),
    ],
)
def test_a_name_means_one_thing(
    tokenizer_and_grammars: tuple[Tokenizer, Grammars],
    schema: dict[str, object],
    good: list[str],
    bad: list[str],
) -> None:
    """All that holds for a name holds for it, however it could be written."""
    admits = partial(_admits, tokenizer_and_grammars, {"type": "object", **schema})

    assert [text for text in good if not admits(text)] == []
    assert [text for text in bad if admits(text)] == []


@pytest.mark.parametrize(
    ("schema", "what"),
    [
        ({"type": "integer", "multipleOf": 5}, "multipleOf 5 below 0"),
        ({"minimum": -1e9, "multipleOf": 0.1}, r"multipleOf 0\.1 below 0"),
        ({"items": {"minProperties": 2}}, "minProperties 2.*0 required"),
        ({"minProperties": 3, "required": ["a", "a"]}, "minProperties 3.*1 required"),
        (
            {
                "minProperties": 2,
                "patternProperties": {"^a": {}},
                "additionalProperties": False,
            },
            "minProperties 2",
        ),
        (
            {"properties": {"a": {}}, "patternProperties": {r"\p{L}": {}}},
            "name .*patternProperties",
        ),
    ],
)
def test_what_would_be_followed_by_halves_is_refused(schema: object, what: str) -> None:
    """What the engine would not hold to, or not write, is refused by name."""
    with pytest.raises(UnsupportedFeatureError, match=what):
        engine_schema(json.dumps(schema))


_words = (
    "oneOf type enum const required properties $ref format allOf items $defs "
    "multipleOf minimum additionalProperties patternProperties minProperties"
)
_plain = st.none() | st.booleans() | st.integers(0, 2)
_json = st.recursive(
    _plain | st.sampled_from(["object", "#", ""]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(_words.split()), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(_json, _json)
def test_a_wrong_schema_is_left_to_the_engine(one: object, other: object) -> None:
    """No schema, however odd, breaks the rewriting; it may be refused."""
    with suppress(UnsupportedFeatureError):
        engine_schema(json.dumps({"oneOf": [one, other], "properties": {"a": one}}))


@pytest.mark.parametrize("text", ["{", "[]", "false", "1"])
def test_what_is_no_schema_is_refused(text: str) -> None:
    """A schema is a JSON object."""
    with pytest.raises(BadRequestError, match="json_schema"):
        engine_schema(text)
