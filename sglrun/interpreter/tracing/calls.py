"""Calls: whose code is called, and what may be done with values that are not known.

Rule: a table; what is not in it is a library's, and gets no unknown value to see.
"""

import builtins
import collections
import contextlib
import copy
import dataclasses
import datetime as dt
import functools
import itertools
import os
import site
import sys
import sysconfig
import types
import typing
from functools import lru_cache
from pathlib import Path
from typing import Any

import sglrun.errors

_LIBRARIES = tuple(
    f"{os.path.realpath(folder)}{os.sep}"
    for folder in {
        *sysconfig.get_paths().values(),
        *site.getsitepackages(),
        str(Path(sglrun.errors.__file__).parent),
    }
)


@lru_cache(maxsize=4096)
def is_authors(filename: str, program_file: str) -> bool:
    """Return whether *filename* is the author's, who wrote *program_file*."""
    if filename.startswith("<"):
        return filename == program_file
    if os.path.dirname(filename) == os.path.dirname(program_file):  # noqa: PTH120
        return True
    return not os.path.realpath(filename).startswith(_LIBRARIES)


def is_language(called: object) -> bool:
    """Return whether *called* is sglrun's."""
    module = getattr(called, "__module__", None)
    return isinstance(module, str) and module.startswith("sglrun.")


def is_varying(called: Any) -> bool:
    """Return whether *called* gives something else each time, or waits for a person."""
    owner = getattr(called, "__self__", None)
    if owner is sys.stdin:
        return True
    module = getattr(called, "__module__", None) or getattr(owner, "__name__", None)
    name = getattr(called, "__name__", "")
    if isinstance(owner, type) and issubclass(owner, dt.date):
        return name in ("now", "today", "utcnow")
    return module in _VARYING_MODULES or (module, name) in _VARYING


def is_native(called: Any) -> bool:
    """Return whether *called* only moves values about, or asks them itself."""
    owner = getattr(called, "__self__", None)
    if type(owner) in _CONTAINERS or isinstance(owner, types.GeneratorType):
        return True
    if isinstance(called, type):
        return called in _CONTAINERS or _is_plain_class(called)
    if id(called) in _NATIVE:
        return True
    # A method that a dataclass was given, or object's own.
    code = getattr(called, "__code__", None)
    return code is not None and code.co_filename == "<string>"


def is_higher_order(called: Any) -> bool:
    """Return whether *called* calls functions that it is given."""
    if id(called) in _HIGHER_ORDER:
        return True
    return type(getattr(called, "__self__", None)) is list and called.__name__ == "sort"


def words_of(called: Any) -> str:
    """Return what *called* is called, with its module or class."""
    owner = getattr(called, "__self__", None)
    name = getattr(called, "__qualname__", type(called).__qualname__)
    if owner is builtins:
        return str(name)
    if isinstance(owner, types.ModuleType):
        return f"{owner.__name__.removeprefix('_')}.{name}"
    if owner is not None and "." not in name:
        return f"{type(owner).__qualname__}.{name}"
    module = getattr(called, "__module__", None)
    if module in (None, "builtins", "__main__") or "<locals>" in name:
        return str(name)
    short = module.rpartition(".")[2].removeprefix("sglrun_program_")
    return f"{short}.{name}"


def _is_plain_class(kind: type) -> bool:
    if issubclass(kind, BaseException):
        return True
    if dataclasses.is_dataclass(kind):
        return True
    fields = getattr(kind, "_fields", None)
    if issubclass(kind, tuple) and isinstance(fields, tuple):
        return True
    return kind.__init__ is object.__init__ and kind.__new__ is object.__new__


_CONTAINERS: set[type] = {
    list,
    tuple,
    dict,
    set,
    frozenset,
    enumerate,
    zip,
    reversed,
    slice,
    super,
    property,
    staticmethod,
    classmethod,
    collections.deque,
    collections.defaultdict,
    collections.OrderedDict,
    collections.Counter,
    collections.ChainMap,
    itertools.chain,
    itertools.count,
    itertools.cycle,
    itertools.repeat,
    itertools.islice,
    itertools.product,
    itertools.zip_longest,
    itertools.pairwise,
    itertools.combinations,
    itertools.permutations,
    itertools.compress,
    types.SimpleNamespace,
    types.MappingProxyType,
    contextlib.nullcontext,
    contextlib.suppress,
    contextlib.ExitStack,
    bool,
    float,
    range,
}
_NATIVE = {
    id(each)
    for each in (
        builtins.len,
        builtins.iter,
        builtins.next,
        builtins.any,
        builtins.all,
        builtins.sum,
        builtins.abs,
        builtins.round,
        builtins.pow,
        builtins.hash,
        copy.copy,
        copy.deepcopy,
        dataclasses.replace,
        dataclasses.asdict,
        dataclasses.astuple,
        dataclasses.fields,
        typing.cast,
        itertools.tee,
    )
}
_HIGHER_ORDER = {
    id(each)
    for each in (
        map,
        filter,
        sorted,
        min,
        max,
        functools.reduce,
        functools.partial,
        itertools.starmap,
        itertools.takewhile,
        itertools.dropwhile,
        itertools.filterfalse,
        itertools.groupby,
        itertools.accumulate,
    )
}
_VARYING_MODULES = frozenset({"random", "secrets", "uuid", "time", "numpy.random"})
_VARYING = frozenset(
    {
        ("builtins", "input"),
        ("getpass", "getpass"),
        ("posix", "urandom"),
        ("posix", "getpid"),
        ("posix", "times"),
    }
)
