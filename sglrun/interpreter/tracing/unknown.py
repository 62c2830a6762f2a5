"""What is unknown: whether anything that is not known yet stands in a value."""

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import FunctionType, GeneratorType, MethodType, ModuleType
from typing import Any

from sglrun.interpreter.state import ProgramState, ProgramStateGroup
from sglrun.interpreter.tracing.placeholder import Placeholder
from sglrun.interpreter.tracing.value import Value

_MOST = 20_000
_DEEPEST = 6
_UNKNOWN = Value(source="variable", name=None, exact=False)
_PLAIN = (str, bytes, int, float, bool, type(None), type, ModuleType)


def first_unknown(values: Iterable[object]) -> Value | None:
    """Return the first value in *values* that is not known yet, however deep inside.

    What is too large to be looked through counts as unknown.
    """
    return next(unknown_in(values), None)


def is_open(values: Iterable[object]) -> bool:
    """Return whether *values* hold a program's state, or what hides what it holds."""
    return any(each is _UNKNOWN for each in unknown_in(values))


def unknown_in(values: Iterable[object]) -> Iterator[Value]:
    """Iterate over the values in *values* that are not known yet."""
    todo = deque((value, 0) for value in values)
    seen: set[int] = set()
    kept = []  # what was looked at stays, so that no two have the same id
    while todo:
        given, depth = todo.popleft()
        if type(given) is Placeholder:
            yield given.value
            continue
        if type(given) in _PLAIN or isinstance(given, type) or id(given) in seen:
            continue
        seen.add(id(given))
        kept.append(given)
        if isinstance(given, _OPEN):  # anything may be in it
            yield _UNKNOWN
            continue
        if len(seen) > _MOST:
            yield _UNKNOWN
            return
        if depth < _DEEPEST:
            todo.extend((inner, depth + 1) for inner in _inside(given))


def _inside(given: Any) -> Iterator[object]:
    look = next((look for kinds, look in _LOOKS if isinstance(given, kinds)), _fields)
    yield from look(given)


def _of_function(given: Any) -> Iterator[object]:
    yield from given.__defaults__ or ()
    for cell in given.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not assigned yet
            continue


def _of_generator(given: Any) -> Iterator[object]:
    if given.gi_frame is not None:
        yield from given.gi_frame.f_locals.values()


def _fields(given: object) -> Iterator[object]:
    yield from getattr(given, "__dict__", {}).values()
    if isinstance(given, BaseException):
        yield from given.args
    for kind in type(given).__mro__:
        for name in _names(vars(kind).get("__slots__", ())):
            try:
                yield object.__getattribute__(given, name)
            except AttributeError:
                continue


def _names(slots: Any) -> Iterable[str]:
    return (slots,) if isinstance(slots, str) else slots


_OPEN: tuple[type, ...] = (
    ProgramState,
    ProgramStateGroup,
    map,
    filter,
    zip,
    enumerate,
    reversed,
    itertools.chain,
    itertools.islice,
    itertools.starmap,
    type(iter([])),
    type(iter(())),
)
_LOOKS: tuple[tuple[Any, Callable[[Any], Iterable[object]]], ...] = (
    (dict, lambda given: (*given.keys(), *given.values())),
    ((list, tuple, set, frozenset, deque), lambda given: given),
    (FunctionType, _of_function),
    (MethodType, lambda given: (given.__self__, given.__func__)),
    (GeneratorType, _of_generator),
    (partial, lambda given: (given.func, given.args, given.keywords)),
)
