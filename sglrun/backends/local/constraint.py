"""The constraint of a request, as the grammar engine reads it."""

from dataclasses import dataclass

from sglrun.backends.local.ebnf import engine_grammar
from sglrun.backends.local.grammar import Kind
from sglrun.backends.local.pattern import engine_pattern
from sglrun.backends.local.schema import engine_schema
from sglrun.errors import BadRequestError
from sglrun.lang.sampling import SamplingParams


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
        return Constraint("json_schema", engine_schema(sampling.json_schema))
    if sampling.ebnf is not None:
        return Constraint("lark", engine_grammar(sampling.ebnf))
    return None
