"""Plain calls: what a program's source asks for, read without running it.

A call is sure where it stands in the open: not in a branch, a loop that may not begin
or a handler, and before anything that may leave the function. What stands in functions
and programs that are called is read too.
"""

import ast
import builtins
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import Any

from sglrun.interpreter.program import Program
from sglrun.lang import expressions, pictures


@dataclass(frozen=True, slots=True)
class PlainCall:
    """A call of the language.

    Attributes:
        feature: what it needs, as capabilities name it.
        words: it, in words.
        where: the author's line.
        is_sure: every row comes to it.
    """

    feature: str
    words: str
    where: str
    is_sure: bool = True


def plain_calls(program: Program) -> Iterator[PlainCall]:
    """Yield what *program* asks for; nothing where it has no source."""
    yield from _Reader().calls(inspect.unwrap(program.func), sure=True)


class _Reader:
    """Reads functions, each once."""

    def __init__(self) -> None:
        self._read: set[FunctionType] = set()

    def calls(self, func: Any, *, sure: bool) -> Iterator[PlainCall]:
        """Yield what the source of *func* asks for."""
        if not isinstance(func, FunctionType) or func in self._read:
            return
        self._read.add(func)
        try:
            lines, first = inspect.getsourcelines(func)
            (function,) = ast.parse(textwrap.dedent("".join(lines))).body
            known = _names(func)
        except (OSError, TypeError, SyntaxError, ValueError):
            return
        if not isinstance(function, ast.FunctionDef):
            return
        file = Path(inspect.getfile(func)).name
        for call, call_is_sure in _calls(function.body, sure=sure):
            where = f"{file}:{first + call.lineno - 1}"
            for feature, words in _needs(call, known):
                yield PlainCall(feature, words, where, call_is_sure)
            yield from self.calls(_called(call, known), sure=call_is_sure)


def _names(func: FunctionType) -> Mapping[str, object]:
    found = inspect.getclosurevars(func)
    code = func.__code__
    own = {*code.co_varnames, *code.co_cellvars}
    known = {**vars(builtins), **found.globals, **found.nonlocals}
    return {name: value for name, value in known.items() if name not in own}


def _called(call: ast.Call, known: Mapping[str, object]) -> object:
    """Return the author's function that *call* runs on the same backend, if any."""
    if any(given.arg == "backend" for given in call.keywords):
        return None
    func = call.func
    if isinstance(func, ast.Attribute) and func.attr == "run":
        func = func.value
    called = _value(func, known)
    if isinstance(called, Program):
        return inspect.unwrap(called.func)
    ours = str(getattr(called, "__module__", "")).partition(".")[0] == "sglrun"
    return None if ours else called


_Found = Iterator[tuple[ast.Call, bool]]


def _calls(body: list[ast.stmt], *, sure: bool) -> _Found:
    """Yield the calls in *body*, and whether every row comes to each."""
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            continue
        for part, is_open in _parts(statement):
            if isinstance(part, ast.stmt):
                yield from _calls([part], sure=sure and is_open)
            else:
                yield from _in_expression(part, sure=sure and is_open)
        if any(isinstance(inner, _LEAVES) for inner in ast.walk(statement)):
            sure = False


def _parts(statement: ast.stmt) -> Iterator[tuple[ast.AST, bool]]:
    """Yield what *statement* holds, and whether that is come to with it."""
    open_fields = _OPEN.get(type(statement), ())
    for name, value in ast.iter_fields(statement):
        is_open = name in open_fields or name in _HEADS
        if name == "body" and isinstance(statement, ast.For):
            is_open = _begins(statement.iter)
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, ast.withitem):
                yield part.context_expr, True
            elif isinstance(part, ast.ExceptHandler | ast.match_case):
                yield from ((inner, False) for inner in part.body)
            elif isinstance(part, ast.stmt | ast.expr):
                yield part, is_open


_HEADS = frozenset({"value", "target", "targets", "test", "iter", "subject", "exc"})
_OPEN: Mapping[type, tuple[str, ...]] = {ast.With: ("body",)}


def _begins(iterable: ast.expr) -> bool:
    """Return whether a loop over *iterable* certainly begins."""
    if isinstance(iterable, ast.List | ast.Tuple | ast.Constant):
        try:
            return bool(ast.literal_eval(iterable))
        except ValueError:
            return any(not isinstance(each, ast.Starred) for each in iterable.elts)  # type: ignore[union-attr]
    if not isinstance(iterable, ast.Call) or ast.unparse(iterable.func) != "range":
        return False
    try:
        return bool(range(*map(ast.literal_eval, iterable.args)))
    except (TypeError, ValueError):
        return False


def _in_expression(node: ast.AST, *, sure: bool) -> _Found:
    sure = sure and not isinstance(node, _MAYBE)
    if isinstance(node, ast.Call):
        yield node, sure
    for inner in ast.iter_child_nodes(node):
        yield from _in_expression(inner, sure=sure)


_LEAVES = (
    ast.Return,
    ast.Raise,
    ast.Yield,
    ast.YieldFrom,
    ast.Break,
    ast.Continue,
    ast.Assert,
)
_MAYBE = (
    ast.IfExp,
    ast.BoolOp,
    ast.Lambda,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
)


def _needs(call: ast.Call, known: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    called = _value(call.func, known)
    if called in (expressions.gen_int, expressions.gen_string):
        yield "regex", f"{called.__name__}()"
    elif called is expressions.select:
        yield "select", "select()"
    elif called is pictures.image:
        yield "images", "an image"
    elif called is pictures.video:
        yield "videos", "a video"
    elif called is expressions.gen:
        given = {each.arg: each.value for each in call.keywords if each.arg}
        for name, feature in _SHAPES.items():
            if name in given and _is_given(given[name], known):
                yield feature, f"gen({name}=...)"


_SHAPES = {
    "regex": "regex",
    "dtype": "regex",
    "json_schema": "json_schema",
    "ebnf": "ebnf",
    "choices": "select",
}


def _is_given(node: ast.expr, known: Mapping[str, object]) -> bool:
    if isinstance(node, ast.JoinedStr | ast.List | ast.Tuple | ast.Dict):
        return True
    return _value(node, known) is not None


def _value(node: ast.expr, known: Mapping[str, object]) -> object:
    """Return what *node* is, where that is written down; else ``None``."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if isinstance(node, ast.Attribute):
        outside = _value(node.value, known)
        return inspect.getattr_static(outside, node.attr, None) if outside else None
    return None
