"""JSON schemas in the engine's words."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglrun.backends.local.grammar import Grammars
from sglrun.backends.local.model import Model
from sglrun.backends.local.schema import engine_schema
from sglrun.backends.local.tokenizer import Tokenizer
from sglrun.errors import BadRequestError


def _tagged(tag: str, **more: object) -> dict[str, object]:
    properties = {"kind": {"const": tag}, **more}
    return {"type": "object", "properties": properties, "required": list(properties)}


_CAT, _DOG = _tagged("cat"), _tagged("dog", age={"type": "integer"})
_OPEN = {"type": "object", "required": ["a"], "properties": {"a": {"type": "null"}}}


@pytest.fixture(scope="module")
def tokenizer_and_grammars(model_path: Path) -> Iterator[tuple[Tokenizer, Grammars]]:
    """The bundled model's vocabulary, and the grammar engine over it."""
    model = Model(model_path)
    tokenizer = Tokenizer(model)
    grammars = Grammars(model, tokenizer)
    yield tokenizer, grammars
    grammars.close()
    model.close()


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

    assert written["items"] == {"anyOf": parts}


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

    assert written["oneOf"] == parts


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("uri", ["http://a.b/c?d#e", "urn:isbn:1", "a:", "x://u:p@h:80"], ["b", "a: "]),
        ("uri-reference", ["", "../a", "#x", "//h/p", "http://a"], [":", "%zz", "é"]),
        ("iri", ["http://é.fr/ü"], ["é"]),
        ("json-pointer", ["", "/a~1b//c"], ["a", "/~2"]),
        ("relative-json-pointer", ["0#", "10/a"], ["01", "/a"]),
        ("time", ["22:04:59Z", "22:04:00.5+01:00"], ["22:04:60Z", "22:04:00z"]),
        ("date-time", ["2026-02-28T00:00:00Z"], ["2026-02-28t00:00:60Z", "2026"]),
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
    tokenizer, grammars = tokenizer_and_grammars
    schema = engine_schema(json.dumps({"type": "string", "format": name}))

    def admits(text: str) -> bool:
        matcher = grammars.matcher("json_schema", schema)
        for token in tokenizer.encode(json.dumps(text, ensure_ascii=False)):
            if not matcher.allowed()[token]:
                return False
            matcher.consume(token)
        return matcher.is_complete()

    assert [text for text in good if not admits(text)] == []
    assert [text for text in bad if admits(text)] == []


@pytest.mark.parametrize("name", ["uri-template", "idn-email", "regex"])
def test_a_format_that_cannot_be_followed_is_refused(
    tokenizer_and_grammars: tuple[Tokenizer, Grammars], name: str
) -> None:
    """A format of the standard is not dropped in silence."""
    _, grammars = tokenizer_and_grammars
    schema = engine_schema(json.dumps({"type": "string", "format": name}))

    with pytest.raises(BadRequestError, match=name):
        grammars.matcher("json_schema", schema)


_words = "oneOf type enum const required properties $ref format allOf items $defs"
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
    """No schema, however odd, breaks the rewriting."""
    engine_schema(json.dumps({"oneOf": [one, other], "properties": {"a": one}}))


@pytest.mark.parametrize("text", ["{", "[]", "false", "1"])
def test_what_is_no_schema_is_refused(text: str) -> None:
    """A schema is a JSON object."""
    with pytest.raises(BadRequestError, match="json_schema"):
        engine_schema(text)
