"""The author's function: what may be made into a program, told by its shape."""

import functools
import inspect
from collections.abc import Callable, Mapping

from sglrun.errors import ProgramError
from sglrun.interpreter.program import Program

_NOT_PLAIN: Mapping[Callable[[object], bool], str] = {
    inspect.iscoroutinefunction: "async",
    inspect.isasyncgenfunction: "an async generator",
    inspect.isgeneratorfunction: "a generator",
}
_OF_METHODS = ("self", "cls")


def without_partial(given: object) -> tuple[Callable[..., object], dict[str, object]]:
    """Return what *given* calls, as a function or a method, and what it binds by name.

    Raises:
        ProgramError: it cannot be called, is a program, or binds by position.
    """
    bound: dict[str, object] = {}
    while isinstance(given, functools.partial):
        if given.args:
            raise ProgramError(
                f"{given!r} binds its first parameter, which is the state; bind "
                "arguments by name: functools.partial(func, name=value)"
            )
        bound = {**given.keywords, **bound}
        given = given.func
    if isinstance(given, Program):
        raise ProgramError(
            f"{given.name!r} is a program already; use it as it is, or bind arguments "
            "with .bind(name=value)"
        )
    if not callable(given):
        raise ProgramError(
            f"{given!r} cannot be called; a program is made of a function whose first "
            "parameter is the state: @sgl.function above def ask(s, ...)"
        )
    return given if hasattr(given, "__name__") else given.__call__, bound


def check_author_function(func: Callable[..., object]) -> str:
    """Return the name of the program that is made of *func*.

    Raises:
        ProgramError: it could not run, or not as it is written.
    """
    owner = getattr(func, "__self__", None)
    is_object = func.__name__ == "__call__" and owner is not None
    name = type(owner).__name__ if is_object else func.__name__
    if not hasattr(inspect.unwrap(func), "__code__"):
        raise ProgramError(
            f"the program {name!r} is not written in Python, or is a class; write a "
            "function that calls it"
        )
    for is_other, what in _NOT_PLAIN.items():
        if is_other(func):
            raise ProgramError(
                f"the program {name!r} is {what}; write it as a plain function, "
                "expressions run beside it anyway"
            )
    _check_parameters(func, name)
    return name


def _check_parameters(func: Callable[..., object], name: str) -> None:
    parameters = tuple(inspect.signature(func).parameters.values())
    if not parameters:
        raise ProgramError(
            f"the program {name!r} must take the state as its first "
            f"parameter: def {name}(s, ...)"
        )
    first, *rest = parameters
    if first.name in _OF_METHODS:
        raise ProgramError(
            f"the program {name!r} is a method, and the state would be its "
            f"{first.name!r}; write it as a function outside of the class, or as a "
            f"staticmethod: def {name}(s, ...)"
        )
    for parameter in rest:
        if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
            raise ProgramError(
                f"the program {name!r} takes {parameter.name!r} by position only, but "
                "rows give arguments by name; move the '/' before it"
            )
