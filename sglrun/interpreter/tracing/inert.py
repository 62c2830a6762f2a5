"""Inertness: whether a program's code can change nothing but its own state.

Such a program is run to its end with placeholders before any row, and nobody can tell.
It is read from the code of the program and of all that it uses; what cannot be read
is taken to change something.
"""

import ast
import builtins
import dataclasses
import dis
import enum
import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

from sglrun.interpreter.program import Program


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_PURE_MODULES = _words(
    "ast base64 collections copy dataclasses datetime decimal difflib enum "
    "fractions functools hashlib html itertools json math operator re sglang "
    "sglrun statistics string textwrap typing unicodedata"
)
_PURE_BUILTINS = _words(
    "abs all any bool bytes callable chr classmethod dict divmod enumerate filter "
    "float format frozenset getattr hasattr hash hex int isinstance issubclass "
    "iter len list map max min next object oct ord pow property range repr "
    "reversed round set slice sorted staticmethod str sum super tuple type zip"
)
_CONSTANT = (str, bytes, int, float, complex, type(None), re.Pattern, range, enum.Enum)
_MUTABLE = (list, dict, set)
# What changes a collection.
_CHANGERS = _words(
    "add append clear discard extend insert pop popitem remove reverse setdefault "
    "sort update"
)
# What of the language is more than an expression.
_MORE = _words(
    "Anthropic Crusoe LiteLLM OpenAI Runtime RuntimeEndpoint VertexAI flush_cache "
    "get_server_info global_config register_chat_template "
    "register_chat_template_matching_function run_batch set_default_backend utils"
)

_GENERATED = "<string>"  # where dataclasses write methods


def is_inert(program: Program) -> bool:
    """Return whether running *program* changes nothing but its own state."""
    reader = _Reader()
    try:
        return reader.reads(program) and all(map(reader.reads, program.bound.values()))
    except ValueError:  # a name of an outer function that has no value yet
        return False
    except RecursionError:  # what it uses is nested too deep to be read
        return False


class _Reader:
    """Reads code and what it uses, each once."""

    def __init__(self) -> None:
        self._seen: dict[int, object] = {}  # the objects too: an id is used again

    def reads(self, value: Any) -> bool:
        """Return whether using *value* changes nothing outside."""
        if isinstance(value, _CONSTANT) or id(value) in self._seen:
            return True
        self._seen[id(value)] = value
        if isinstance(value, Program):
            return self.reads(inspect.unwrap(value.func))
        if isinstance(value, tuple | frozenset | list | set):
            return all(map(self.reads, value))
        if isinstance(value, dict):
            return all(map(self.reads, (*value, *value.values())))
        return self._reads_code(value)

    def _reads_code(self, value: Any) -> bool:
        name = getattr(value, "__name__", "")
        if isinstance(value, ModuleType):
            return _root(name) in _PURE_MODULES
        if getattr(builtins, name, None) is value:
            return name in _PURE_BUILTINS or _is_error(value)
        module = getattr(value, "__module__", None) or ""
        if not isinstance(value, type | FunctionType | BuiltinFunctionType):
            return module.startswith("sglrun.lang.") or self._reads_fields(value)
        if _root(module) in _PURE_MODULES:
            return True
        if isinstance(value, type):
            return all(map(self._reads_member, vars(value).values()))
        return isinstance(value, FunctionType) and self._reads_function(value)

    def _reads_fields(self, value: Any) -> bool:
        if not dataclasses.is_dataclass(value):
            return False
        names = (*(field.name for field in dataclasses.fields(value)), "__class__")
        return all(self.reads(getattr(value, name)) for name in names)

    def _reads_member(self, member: Any) -> bool:
        inner = getattr(member, "__func__", None) or getattr(member, "fget", None)
        func = inspect.unwrap(inner or member)
        if isinstance(func, FunctionType) and func.__code__.co_filename == _GENERATED:
            return True
        return not isinstance(func, FunctionType | type) or self.reads(func)

    def _reads_function(self, function: FunctionType) -> bool:
        names = function.__globals__
        codes = tuple(_codes(function.__code__))
        if any(map(_writes, codes)):
            return False
        values = (
            *inspect.getclosurevars(function).nonlocals.values(),
            *(function.__defaults__ or ()),
            *(function.__kwdefaults__ or {}).values(),
            *(each for code in codes for each in _loaded(code, names)),
        )
        holds = any(isinstance(each, _MUTABLE) for each in values)
        if holds and _changes(function):
            return False
        return all(map(self.reads, values))


def _root(name: str) -> str:
    return name.partition(".")[0]


def _is_error(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, BaseException)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _loaded(code: CodeType, names: Mapping[str, object]) -> Iterator[object]:
    """Iterate over the values of the names that *code* takes from outside."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            name = str(instruction.argval)
            yield names[name] if name in names else getattr(builtins, name, None)


def _writes(code: CodeType) -> bool:
    """Return whether *code* writes to what others see."""
    for each in dis.get_instructions(code):
        name, to = each.argval, each.opname.partition("_")[2]
        if each.opname.startswith(("STORE", "DELETE")):
            inner = to == "DEREF" and name not in code.co_freevars
            if to in ("GLOBAL", "ATTR", "DEREF") and not inner:
                return True
        elif each.opname == "IMPORT_NAME":
            if _root(name) not in _PURE_MODULES:
                return True
        elif each.opname.startswith("LOAD") and name in _MORE:
            return True
    return False


def _changes(function: FunctionType) -> bool:
    """Return whether *function* changes a collection that is not its own."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return True
    own = {name for code in _codes(function.__code__) for name in code.co_varnames}
    return any(
        _begins_with(node) not in own for node in ast.walk(tree) if _is_change(node)
    )


def _is_change(node: ast.AST) -> bool:
    if isinstance(node, ast.Subscript):
        return not isinstance(node.ctx, ast.Load)
    return isinstance(node, ast.Attribute) and node.attr in _CHANGERS


def _begins_with(node: ast.AST) -> str | None:
    while isinstance(node, ast.Subscript | ast.Attribute | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""
