"""Programs: arguments, binding, and what the decorator takes."""

from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

import sglrun as sgl
from sglrun.backends.mock import MockBackend
from sglrun.errors import ProgramError
from sglrun.interpreter.function import Function


@sgl.function
def both(s: sgl.ProgramState, x: str, y: str = "Y", *, k: str = "K") -> str:
    """Say all arguments."""
    s += x + y + k
    return f"{x}{y}"


@sgl.function
def anything(s: sgl.ProgramState, **kwargs: str) -> None:
    """Say whatever comes."""
    s += "".join(f"{name}={value};" for name, value in kwargs.items())


def text(program: Function, *args: Any, **kwargs: Any) -> str:
    return program.run(*args, backend=MockBackend(" OUT"), **kwargs).text()


def test_a_program_knows_its_function() -> None:
    """A program tells its name, file, line and parameters."""
    line = Path(__file__).read_text("utf-8").splitlines()[both.line - 1]

    assert (both.name, both.path) == ("both", Path(__file__))
    assert line == "@sgl.function"
    assert (both.parameters, both.required) == (("x", "y", "k"), ("x",))
    assert not both.takes_any


def test_arguments_by_position_and_name() -> None:
    """Arguments are given as to a function; defaults stand for the rest."""
    assert text(both, "a") == "aYK"
    assert text(both, "a", "b") == "abK"
    assert text(both, y="b", x="a", k="c") == "abc"


def test_what_the_body_returns_is_kept() -> None:
    """The state has the body's return value."""
    assert both.run("a", backend=MockBackend()).ret_value == "aY"


def test_binding_fixes_arguments() -> None:
    """Bound arguments are given to every run, more may be bound later."""
    bound = both.bind(y="1")

    assert text(bound, x="a") == "a1K"
    assert text(bound.bind(k="2"), "a") == "a12"
    assert text(both, "a") == "aYK"


def test_positions_skip_what_is_bound() -> None:
    """Positional arguments fill the parameters that are still free."""
    assert text(both.bind(x="X"), "b") == "XbK"


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {}, "missing argument 'x'.*takes x, y, k"),
        (("a",), {"x": "b"}, "'x' is given twice"),
        (("a",), {"zz": 1}, "unknown argument 'zz'.*takes x, y, k"),
        (("a", "b", "c"), {}, "3 arguments given by position"),
    ],
)
def test_arguments_that_do_not_fit_are_named(
    args: tuple[Any, ...], kwargs: dict[str, Any], message: str
) -> None:
    """A run whose arguments do not fit begins nothing and says which."""
    backend = MockBackend()

    with pytest.raises(ProgramError, match=message):
        both.run(*args, backend=backend, **kwargs)

    assert backend.requests == []


def test_a_bound_argument_is_not_given_again() -> None:
    """Two values for one argument are an error, whoever comes first."""
    with pytest.raises(ProgramError, match="'x' is bound already and given again"):
        text(both.bind(x="X"), x="c")


def test_only_parameters_are_bound() -> None:
    """An argument that the function does not take is refused by name."""
    with pytest.raises(ProgramError, match=r"cannot bind 'zz'.*takes x, y, k"):
        both.bind(zz=1)

    assert text(anything.bind(zz="1"), q="2") == "q=2;zz=1;"


def test_binding_keeps_the_rest() -> None:
    """A bound program is the same program in all else."""
    program = sgl.function(num_api_spec_tokens=7)(both.func)
    bound = program.bind(x="X")

    assert (bound.num_api_spec_tokens, bound.name) == (7, "both")
    assert isinstance(bound, Function)


def test_an_argument_is_never_taken_for_an_option() -> None:
    """A parameter called like a sampling parameter gets its argument by name."""

    @sgl.function
    def sample(s: sgl.ProgramState, n: int, temperature: str) -> None:
        s += f"{n}{temperature}" + sgl.gen("a")

    backend = MockBackend("x")
    state = sample.run(n=3, temperature="warm", max_new_tokens=5, backend=backend)

    assert state.text() == "3warmx"
    assert backend.requests[0].sampling.n == 1
    assert backend.requests[0].sampling.max_new_tokens == 5


def test_a_callers_arguments_stay_as_they_are() -> None:
    """Running a bound program leaves the mapping of a row unchanged."""
    row = {"x": "a"}
    both.bind(y="b").run_batch([row], backend=MockBackend())

    assert row == {"x": "a"}


def test_any_name_may_stand_for_the_state() -> None:
    """The first parameter is the state, whatever its name."""

    @sgl.function
    def other(state: sgl.ProgramState) -> None:
        state += "ok"

    assert text(other) == "ok"


def no_state() -> None:
    """Take nothing."""


async def asynchronous(s: Any) -> None:
    """Be awaited."""


def generator(s: Any) -> Any:
    """Yield."""
    yield s


async def async_generator(s: Any) -> Any:
    """Yield, awaited."""
    yield s


def by_position(s: Any, q: str, /) -> None:
    """Take an argument by position only."""


def by_name(s: Any, x: str, y: str, q: str) -> None:
    """Say all three."""
    s += x + y
    s += q


def method(self: Any, q: str) -> None:
    """Stand in a class."""


class Calls:
    """An object that is called."""

    def __call__(self, s: Any, x: str, y: str = "Y") -> None:
        """Say both."""
        s += x + y


class Awaited:
    """An object whose call is awaited."""

    async def __call__(self, s: Any) -> None:
        """Be awaited."""


@pytest.mark.parametrize(
    ("func", "message"),
    [
        (no_state, "must take the state as its first parameter"),
        (asynchronous, "is async"),
        (generator, "is a generator"),
        (async_generator, "is an async generator"),
        (by_position, "takes 'q' by position only"),
        (method, "'method' is a method.*'self'.*outside of the class.*staticmethod"),
        (3, "3 cannot be called"),
        ("ask", "'ask' cannot be called"),
        (partial(no_state), "must take the state as its first parameter"),
        (partial(asynchronous), "is async"),
        (partial(by_name, "x"), "binds its first parameter.*name=value"),
        (partial(both, zz=1), "is a program already"),
        (partial(cast("Any", by_name), zz=1), "cannot bind 'zz'"),
        (Awaited(), "'Awaited' is async"),
        (Calls, "'Calls' is not written in Python, or is a class"),
        (len, "'len' is not written in Python"),
        (both, r"'both' is a program already.*\.bind"),
    ],
)
def test_functions_that_could_not_run_are_refused(func: Any, message: str) -> None:
    """A body that would never run, or not as written, is refused at its decorator."""
    with pytest.raises(ProgramError, match=message):
        sgl.function(func)


@pytest.mark.parametrize("names", [[], ["x", "y"], ["x", "k", "y"]])
def test_arguments_are_checked_without_running(names: list[str]) -> None:
    """A row's names are checked before anything is spent."""
    if "x" in names:
        both.check_arguments(names)
        return

    with pytest.raises(ProgramError, match="missing argument 'x'"):
        both.check_arguments(names)


def test_a_program_tells_what_it_takes() -> None:
    """Bound parameters are not taken any more; ``**kwargs`` take every name."""
    assert both.takes("x")
    assert not both.bind(x=1).takes("x")
    assert not both.takes("zz")
    assert anything.takes("zz")


def test_a_partial_is_its_function_with_arguments_bound() -> None:
    """What a ``functools.partial`` gives by name is bound, partials of partials too."""
    program = sgl.function(partial(partial(by_name, x="X", y="no"), y="Y"))

    assert (program.name, program.free, program.path.name) == (
        "by_name",
        ("q",),
        "test_program.py",
    )
    assert text(program, "q") == "XYq"
    assert program.trace().prefix.prompt.text == "XY"


def test_an_object_that_can_be_called_is_a_program() -> None:
    """The parameters are those of its ``__call__``, the name that of its class."""
    program = sgl.function(Calls())

    assert (program.name, program.parameters, program.path.name) == (
        "Calls",
        ("x", "y"),
        "test_program.py",
    )
    assert text(program, "x") == "xY"
    assert text(sgl.function(Calls().__call__), "x") == "xY"
