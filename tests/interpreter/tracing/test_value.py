"""Values that are not known before the run."""

from collections.abc import Callable

import pytest

import sglrun as sgl
from sglrun.backends.mock import MockBackend
from sglrun.interpreter.tracing.value import Mark, Value, composed

Q, R = (Value(source="argument", name=name) for name in "qr")


def nested(count: int) -> Value:
    value = Q
    for _ in range(count):
        value = Q.then("sub", value)
    return value


def doubled(count: int) -> Value:
    one, other = Q, R
    for _ in range(count):
        one, other = other, one.then("add", other)
    return other


def written(count: int) -> Value:
    value = Q
    for _ in range(count):
        value = composed((Mark(value), " and ", Mark(value), Mark(R)))
    return value


@pytest.mark.parametrize("made", [nested, doubled, written])
def test_a_value_of_too_much_tells_what_it_comes_from(
    made: Callable[[int], Value],
) -> None:
    """However often values are put together, what reads them comes to an end."""
    small, large = made(3), made(600)

    assert small.exact
    assert not large.exact
    assert {part.name for part in large.parts()} == set("q" if made is nested else "qr")
    assert large.as_json()
    assert hash(large) == hash(made(600))
    assert (large.is_text, small.is_text) == (made is written, made is written)


@sgl.function
def counted(s: sgl.ProgramState, q: float, r: float) -> float:
    """Put numbers together, again and again."""
    for _ in range(200):
        q, r = r, q - r
    s += "Well" + sgl.gen("a")
    return q


def test_a_program_that_goes_on_with_numbers_is_traced_and_run() -> None:
    """Neither its trace nor its plan takes for ever."""
    rows = [{"q": 1.0, "r": 2.0}, {"q": 2.0, "r": 1.0}]
    states = counted.run_batch(rows, backend=MockBackend("x"))

    assert [state.error() for state in states] == [None, None]
    assert counted.trace().asked
