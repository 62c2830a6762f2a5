"""The multiples that a JSON schema asks for, as the grammar engine reads them.

The engine knows ``multipleOf`` from zero on, and would never write a number below.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from sglrun.errors import UnsupportedFeatureError

_NUMBERS = frozenset({"integer", "number"})
_ALL = ["null", "boolean", "number", "string", "array", "object"]
_MOST = 1000  # numbers that are listed


def with_multiples_below_zero(schema: dict[str, Any]) -> dict[str, Any]:
    """Return *schema* with its multiples below zero listed one by one.

    Raises:
        UnsupportedFeatureError: they have no end, or are too many.
    """
    step = abs(_number(schema.get("multipleOf")) or Fraction(0))
    types = _types(schema)
    numbers = [name for name in types if name in _NUMBERS]
    least = _bound(schema, "minimum", "exclusiveMinimum", max)
    if not step or not numbers or (least is not None and least >= 0):
        return schema
    if least is None or least / -step > _MOST:
        raise UnsupportedFeatureError(
            f"'local' cannot follow multipleOf {schema['multipleOf']} below 0: "
            "write a minimum beside it, best 0 or more"
        )
    below = [step * times for times in range(math.ceil(least / step), 0)]
    if "number" not in numbers:
        below = [number for number in below if number.denominator == 1]
    options: list[dict[str, Any]] = [
        {"enum": [_written(number) for number in below]},
        *({"type": name} for name in types if name not in _NUMBERS),
    ]
    most = _bound(schema, "maximum", "exclusiveMaximum", min)
    if most is None or most >= 0:
        above = {"minimum": 0, "multipleOf": schema["multipleOf"]}
        options.append({"type": numbers, **above})
    rest = {key: value for key, value in schema.items() if key != "multipleOf"}
    given = rest.get("allOf")
    also = given if isinstance(given, list) else []
    return {**rest, "allOf": [*also, {"anyOf": options}]}


def _types(schema: Mapping[str, Any]) -> Sequence[str]:
    given = schema.get("type", _ALL)
    if isinstance(given, str):
        return (given,)
    return tuple(map(str, given)) if isinstance(given, list) else ()


def _bound(
    schema: Mapping[str, Any],
    name: str,
    exclusive: str,
    tighter: Callable[[list[Fraction]], Fraction],
) -> Fraction | None:
    """Return the bound that *schema* itself sets, if any."""
    given = (_number(schema.get(name)), _number(schema.get(exclusive)))
    bounds = [number for number in given if number is not None]
    return tighter(bounds) if bounds else None


def _number(value: object) -> Fraction | None:
    """Return *value* as it is written, None for what is no finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return Fraction(str(value)) if math.isfinite(value) else None


def _written(number: Fraction) -> int | float:
    return int(number) if number.denominator == 1 else float(number)
