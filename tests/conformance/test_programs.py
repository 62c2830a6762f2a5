"""Rows 15 to 24 and 100: programs, arguments and binding."""

from typing import Any

import pytest

import sglrun as sgl
from sglrun.backends.base import Backend
from sglrun.errors import ProgramError
from sglrun.interpreter.function import Function
from tests.stand_in import StandIn


@sgl.function
def two(s: sgl.ProgramState, x: str, y: str) -> None:
    """Say both."""
    s += x + y


@sgl.function
def counted(s: sgl.ProgramState, n: int) -> None:
    """Say the number."""
    s += f"n={n}"


def text(program: Function, backend: Backend, *args: Any, **kwargs: Any) -> str:
    return program.run(*args, backend=backend, **kwargs).text()


def test_row_015_first_parameter_name(backend: Backend) -> None:
    """Any name may stand for the state."""

    @sgl.function
    def program(state: sgl.ProgramState) -> None:
        state += "ok"

    assert text(program, backend) == "ok"


def test_row_016_async_program() -> None:
    """An ``async`` program, whose body would never run, is refused."""

    async def program(s: sgl.ProgramState) -> None:
        s += "x"

    with pytest.raises(ProgramError, match="'program' is async"):
        sgl.function(program)


def test_row_017_program_parameter_n(backend: Backend) -> None:
    """A parameter called ``n`` gets its argument by name."""
    assert text(counted, backend, n=3) == "n=3"


def test_row_018_program_parameter_n_in_a_batch(backend: Backend) -> None:
    """The same by a row."""
    (state,) = counted.run_batch([{"n": 3}], backend=backend)

    assert state.text() == "n=3"


def test_row_019_keyword_only_default(backend: Backend) -> None:
    """Defaults stand for arguments that are not given, by keyword only too."""

    @sgl.function
    def program(s: sgl.ProgramState, a: str, b: str = "D", *, k: str = "K") -> None:
        s += a + b + k

    assert text(program, backend, "A") == "ADK"


def test_row_020_bind(backend: Backend) -> None:
    """A bound argument is given to every run."""
    assert text(two.bind(x="X"), backend, y="Y") == "XY"


def test_row_021_bind_and_keyword(backend: Backend) -> None:
    """A bound argument that is given again is an error, not silently dropped."""
    with pytest.raises(ProgramError, match="'x' is bound already"):
        text(two.bind(x="X"), backend, x="c", y="Y")


def test_row_022_bind_and_position(backend: Backend) -> None:
    """Positional arguments fill the parameters that are not bound."""
    assert text(two.bind(x="X"), backend, "c") == "Xc"


def test_row_023_bind_unknown() -> None:
    """A parameter that does not exist is refused by name."""
    with pytest.raises(ProgramError, match=r"cannot bind 'zz'.*takes x, y"):
        two.bind(zz=1)


def test_row_024_bind_keeps_the_speculation_budget() -> None:
    """A bound program keeps its budget."""
    program = sgl.function(num_api_spec_tokens=7)(two.func)

    assert program.bind(x="X").num_api_spec_tokens == 7


def test_row_100_nested_program(backend: Backend, stand_in: StandIn) -> None:
    """A program that another one calls runs first, and its variable is used."""

    @sgl.function
    def inner(s: sgl.ProgramState, q: str) -> None:
        s += q + sgl.gen("a")

    @sgl.function
    def outer(s: sgl.ProgramState) -> None:
        s += "outer:" + inner("Q")["a"] + sgl.gen("b")

    assert text(outer, backend) == "outer: OUT OUT"
    assert [sent["text"] for sent in stand_in.generations] == ["Q", "outer: OUT"]
