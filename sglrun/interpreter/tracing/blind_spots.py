"""Blind spots: what an author's code can ask of a value without its noticing.

Python gives a value no say in ``is``, and text none in what the functions of ``re``
find, nor whether it stands in constant text. Where these stand is read from the code
of the program, of the functions and classes of its module, and of the programs that it
calls.
"""

import dis
import inspect
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from sglrun.interpreter.program import Program


def blind_spots(program: Program) -> Iterator[tuple[str, str]]:
    """Iterate over lines, as ``prog.py:12``, and what cannot be followed there.

    A line may be one that looks at nothing unknown.
    """
    seen: set[CodeType] = set()
    todo = [inspect.unwrap(program.func)]
    while todo:
        func = todo.pop()
        if not isinstance(func, FunctionType) or func.__code__ in seen:
            continue
        names = set()
        for code in _codes(func.__code__):
            seen.add(code)
            names |= set(code.co_names)
            yield from _in_code(code, func.__globals__)
        found = [func.__globals__.get(name) for name in sorted(names)]
        found += [cell.cell_contents for cell in func.__closure__ or ()]
        todo += [each for value in found for each in _functions(value, func)]


def _in_code(code: CodeType, names: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    line: int | None = code.co_firstlineno
    loaded: object = None
    for instruction in dis.get_instructions(code):
        line = instruction.starts_line or line
        what = _what(instruction, names)
        if instruction.opname == "CONTAINS_OP" and isinstance(loaded, str):
            what = "whether a value stands in constant text cannot be followed"
        if what is not None:
            yield f"{Path(code.co_filename).name}:{line}", what
        loaded = _loaded(instruction, names)


def _what(instruction: dis.Instruction, names: Mapping[str, Any]) -> str | None:
    opname = instruction.opname
    if opname == "IS_OP" or opname.endswith(("IF_NONE", "IF_NOT_NONE")):
        return "what a value 'is' cannot be followed"
    if opname.startswith(("LOAD_GLOBAL", "LOAD_NAME")):
        found = names.get(str(instruction.argval))
        if found is re or isinstance(found, re.Pattern):
            return "what 're' finds in a value cannot be followed"
    return None


def _loaded(instruction: dis.Instruction, names: Mapping[str, Any]) -> object:
    """Return what *instruction* loads, if that is constant or global."""
    if instruction.opname == "LOAD_CONST":
        return instruction.argval
    if instruction.opname.startswith(("LOAD_GLOBAL", "LOAD_NAME")):
        return names.get(str(instruction.argval))
    return None


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _functions(value: object, user: FunctionType) -> Iterator[Any]:
    """Return the functions behind *value* that the author of *user* wrote."""
    if isinstance(value, Program):
        yield inspect.unwrap(value.func)
    elif getattr(value, "__module__", None) != user.__module__:
        return
    elif isinstance(value, type):
        yield from vars(value).values()
    else:
        yield value
