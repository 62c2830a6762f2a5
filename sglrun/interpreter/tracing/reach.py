"""Reach: what a program's code may call, read without running it."""

from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

from sglrun.interpreter.program import Program

_MOST = 200  # items of a table that are looked at


def may_call_another(program: Program) -> bool:
    """Return whether *program* may call a program, which may be itself."""
    return any(isinstance(each, Program) for each in _reached(program))


def reached_lines(program: Program) -> frozenset[tuple[str, int]]:
    """Return the files and first lines of the functions that *program* may call."""
    functions = (each for each in _reached(program) if isinstance(each, FunctionType))
    codes = (code for each in functions for code in _codes(each.__code__))
    return frozenset((code.co_filename, code.co_firstlineno) for code in codes)


def _reached(program: Program) -> Iterator[Any]:
    todo: list[Any] = [program.func]
    seen: set[int] = set()
    kept = []
    while todo:
        given = todo.pop()
        if id(given) in seen:
            continue
        seen.add(id(given))
        kept.append(given)  # or another might get its id
        yield given
        todo += _behind(given, program.func.__module__)


def _behind(given: Any, module: str) -> Iterator[Any]:
    if isinstance(given, Program):
        yield given.func
    elif isinstance(given, FunctionType):
        yield getattr(given, "__wrapped__", None)
        yield from _named(given)
    elif isinstance(given, dict):
        yield from list(given.values())[:_MOST]
    elif isinstance(given, list | tuple | set | frozenset):
        yield from list(given)[:_MOST]
    elif isinstance(given, type):
        if given.__module__ == module:
            yield from vars(given).values()
    elif getattr(type(given), "__module__", None) == module:
        yield from (type(given), getattr(given, "__dict__", None))


def _named(func: FunctionType) -> Iterator[Any]:
    for cell in func.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    names = {name for code in _codes(func.__code__) for name in code.co_names}
    for name in names:
        found = func.__globals__.get(name)
        yield found
        if isinstance(found, ModuleType):
            yield from (vars(found).get(each) for each in names)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)
