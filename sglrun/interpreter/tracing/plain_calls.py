"""Plain calls: what a program's source asks for in every row, read without running it.

A call counts where it stands in the open: not in a branch, a loop or a handler, and
before anything that may leave the function.
"""

import ast
import builtins
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from sglrun.interpreter.program import Program
from sglrun.lang import expressions, pictures


@dataclass(frozen=True, slots=True)
class PlainCall:
    """A call of the language that every row makes.

    Attributes:
        feature: what it needs, as capabilities name it.
        words: it, in words.
        where: the author's line.
    """

    feature: str
    words: str
    where: str


def plain_calls(program: Program) -> Iterator[PlainCall]:
    """Yield what *program* certainly asks for; nothing where it has no source."""
    try:
        lines, first = inspect.getsourcelines(program.func)
        (function,) = ast.parse(textwrap.dedent("".join(lines))).body
        known = _names(program)
    except (OSError, TypeError, SyntaxError, ValueError):
        return
    if not isinstance(function, ast.FunctionDef):
        return
    file = Path(inspect.getfile(program.func)).name
    for call in _calls(function.body):
        where = f"{file}:{first + call.lineno - 1}"
        for feature, words in _needs(call, known):
            yield PlainCall(feature, words, where)


def _names(program: Program) -> Mapping[str, object]:
    found = inspect.getclosurevars(program.func)
    code = program.func.__code__
    own = {*code.co_varnames, *code.co_cellvars}
    known = {**vars(builtins), **found.globals, **found.nonlocals}
    return {name: value for name, value in known.items() if name not in own}


def _calls(body: list[ast.stmt]) -> Iterator[ast.Call]:
    for statement in body:
        if isinstance(statement, ast.Expr | ast.Assign | ast.AugAssign | ast.AnnAssign):
            yield from _in_expression(statement)
        elif isinstance(statement, ast.With):
            for item in statement.items:
                yield from _in_expression(item.context_expr)
            yield from _calls(statement.body)
        if any(isinstance(inner, _LEAVES) for inner in ast.walk(statement)):
            return


def _in_expression(node: ast.AST) -> Iterator[ast.Call]:
    if isinstance(node, _MAYBE):
        return
    if isinstance(node, ast.Call):
        yield node
    for inner in ast.iter_child_nodes(node):
        yield from _in_expression(inner)


_LEAVES = (ast.Return, ast.Raise, ast.Yield, ast.YieldFrom)
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
