"""The constraint of a request, as the grammar engine reads it."""

import json
from dataclasses import dataclass

from sglrun.backends.local.ebnf import engine_grammar
from sglrun.backends.local.grammar import Kind
from sglrun.backends.local.pattern import engine_pattern
from sglrun.errors import BadRequestError
from sglrun.lang.sampling import SamplingParams

# JSON as ``json.dumps`` writes it: without this, the model may add white space
# wherever JSON allows it, and a weak one does so for ever.
_SPACING = {
    "whitespace_flexible": False,
    "item_separator": ", ",
    "key_separator": ": ",
}


@dataclass(frozen=True, slots=True)
class Constraint:
    """A text of one of the kinds that the grammar engine reads."""

    kind: Kind
    text: str


def constraint_of(sampling: SamplingParams) -> Constraint | None:
    """Return what a generation is held to, if anything.

    Raises:
        BadRequestError: it cannot be read, or there are two.
        UnsupportedFeatureError: it says what the engine cannot follow.
    """
    given = [
        name
        for name in ("regex", "json_schema", "ebnf")
        if getattr(sampling, name) is not None
    ]
    if len(given) > 1:
        raise BadRequestError(
            f"a generation has one constraint, not {' and '.join(given)}"
        )
    if sampling.regex is not None:
        return Constraint("regex", engine_pattern(sampling.regex))
    if sampling.json_schema is not None:
        return Constraint("json_schema", _spaced(sampling.json_schema))
    if sampling.ebnf is not None:
        return Constraint("lark", engine_grammar(sampling.ebnf))
    return None


def _spaced(text: str) -> str:
    try:
        schema = json.loads(text)
    except ValueError as exc:
        raise BadRequestError(f"json_schema is not JSON: {exc}") from exc
    if schema is True:
        schema = {}
    if not isinstance(schema, dict):
        raise BadRequestError(f"json_schema must be an object, not {text}")
    return json.dumps({**schema, "x-guidance": _SPACING}, ensure_ascii=False)
