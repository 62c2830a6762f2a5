"""Rewritten code: an author's functions, which tell what they do to values.

Python gives a value no say in ``is``, in ``"abc".find(q)`` or in what a library makes
of it, and text that was put together by an f-string is plain text. So what is traced is
not the author's function but a copy of it, made from its source, in which these things
are done by an ``Operations``. The author's own function, its module and all other
threads keep the code that they have. A function whose source cannot be found, or is not
what it was compiled from, has no copy.
"""

import ast
import inspect
import linecache
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any

from sglrun.interpreter.tracing.changing import changing_names, own_names, plain_lines

_NAME = "\U0010fff0operations"  # stands in the source for the object itself
# They look at the frame that calls them, or are told apart by the compiler.
_STAY = frozenset({"super", "locals", "globals", "vars", "dir", "eval", "exec"})
# ``with`` these no error is hidden.
_OPEN_WITH = frozenset({"user", "system", "assistant", "var_scope", "copy", "open"})


@dataclass(frozen=True, slots=True)
class _Module:
    """The rewritten functions of a source file.

    Attributes:
        codes: the author's code to the rewritten one.
        guarded: the lines on which an error may be handled.
        plain: the first lines of functions that change nothing but their own.
    """

    codes: Mapping[CodeType, CodeType]
    guarded: frozenset[int] = frozenset()
    plain: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The code of a function of the author's, rewritten.

    Attributes:
        code: it, in which an ``Operations`` does what it can follow.
        is_plain: the function changes nothing but what it has made itself.
    """

    code: CodeType
    is_plain: bool

    def of(self, func: FunctionType) -> FunctionType:
        """Return a copy of *func*, whose code was rewritten, that has this code."""
        made = FunctionType(
            self.code,
            func.__globals__,
            func.__name__,
            func.__defaults__,
            func.__closure__,
        )
        made.__kwdefaults__ = func.__kwdefaults__
        made.__qualname__ = func.__qualname__
        made.__dict__.update(func.__dict__)
        return made


def rewritten(code: CodeType, operations: object) -> Rewritten | None:
    """Return *code* rewritten, so that *operations* does what it can follow.

    ``None`` where its source is not there.
    """
    module = _module_of(code.co_filename)
    new = module.codes.get(code)
    if new is None:
        return None
    lazy = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
    is_plain = code.co_firstlineno in module.plain and not code.co_flags & lazy
    return Rewritten(_with_operations(new, operations), is_plain)


def is_rewritten(code: CodeType, operations: object) -> bool:
    """Return whether *code* is that of a function which ``rewritten`` returned."""
    return bool(code.co_consts) and code.co_consts[-1] is operations


def guarded_lines(filename: str) -> frozenset[int]:
    """Return the lines of a file on which an error may be handled."""
    return _module_of(filename).guarded


def _module_of(filename: str) -> _Module:
    linecache.checkcache(filename)
    return _read(filename, "".join(linecache.getlines(filename)))


@lru_cache(maxsize=64)
def _read(filename: str, source: str) -> _Module:
    try:
        own = compile(source, filename, "exec", dont_inherit=True)
        tree = ast.parse(source, filename)
        plain = plain_lines(tree)
        rewriter = _Rewriter(changing_names(tree))
        tree = ast.fix_missing_locations(rewriter.visit(tree))
        new = compile(tree, filename, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError):
        return _Module({})
    pairs = list(zip(_codes(own), _codes(new), strict=False))
    same = all(
        one.co_name == other.co_name and one.co_firstlineno == other.co_firstlineno
        for one, other in pairs
    )
    return _Module(dict(pairs) if same else {}, frozenset(rewriter.guarded), plain)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _with_operations(code: CodeType, operations: object) -> CodeType:
    consts = (_constant(constant, operations) for constant in code.co_consts)
    return code.replace(co_consts=(*consts, operations))


def _constant(constant: object, operations: object) -> object:
    if isinstance(constant, CodeType):
        return _with_operations(constant, operations)
    return operations if type(constant) is str and constant == _NAME else constant


class _Rewriter(ast.NodeTransformer):
    """Puts calls of an ``Operations`` into a module.

    Attributes:
        guarded: the lines on which an error may be handled.
    """

    def __init__(self, changing: Mapping[str, tuple[int, ...]]) -> None:
        self.guarded: set[int] = set()
        self._changing = changing  # globals
        self._own: list[set[str]] = []  # names of the functions around

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self._own.append(own_names(node))
        made = self.generic_visit(node)
        self._own.pop()
        return made

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if not isinstance(node.ctx, ast.Load) or not self._changes(node):
            return node
        name = ast.copy_location(ast.Constant(node.id), node)
        lines = [ast.Constant(line) for line in self._changing[node.id]]
        where = ast.Tuple([ast.copy_location(line, node) for line in lines], ast.Load())
        return self._do("changing", node, name, ast.copy_location(where, node), node)

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        self.generic_visit(node)
        node.targets = [each for each in node.targets if not self._changes(each)]
        return node if node.targets else ast.copy_location(ast.Expr(node.value), node)

    def _changes(self, node: ast.expr) -> bool:
        """Return whether *node* is a global that the module's functions change."""
        if not isinstance(node, ast.Name) or node.id not in self._changing:
            return False
        return bool(self._own) and not any(node.id in own for own in self._own)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in _STAY:
            return node
        return self._do("call", node, node.func, *node.args, keywords=node.keywords)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        return self._do("text", node, *map(self._part, node.values))

    def _part(self, part: ast.expr) -> ast.expr:
        if not isinstance(part, ast.FormattedValue):
            return part
        conversion = None if part.conversion < 0 else chr(part.conversion)
        spec: Any = ast.Constant("") if part.format_spec is None else part.format_spec
        how = ast.copy_location(ast.Constant(conversion), part)
        ast.copy_location(spec, part)
        return self._do(
            "formatted", part, self.visit(part.value), how, self.visit(spec)
        )

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        if not any(isinstance(sign, tuple(_COMPARED)) for sign in node.ops):
            return node
        if len(node.ops) > 1:
            node.left = self._do("seen", node.left, node.left)
            node.comparators = [
                self._do("seen", each, each) for each in node.comparators
            ]
            return node
        name = _COMPARED[type(node.ops[0])]
        done = self._do(name, node, node.left, node.comparators[0])
        if not isinstance(node.ops[0], ast.NotIn | ast.IsNot):
            return done
        return ast.copy_location(ast.UnaryOp(ast.Not(), done), node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.op, ast.Mod):
            return node
        return self._do("percent", node, node.left, node.right)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        self.generic_visit(node)
        if not (isinstance(node.op, ast.Mod) and isinstance(node.target, ast.Name)):
            return node
        own = ast.copy_location(ast.Name(node.target.id, ast.Load()), node)
        done = self._do("percent", node, own, node.value)
        return ast.copy_location(ast.Assign([node.target], done), node)

    def visit_Match(self, node: ast.Match) -> ast.AST:
        node.subject = self._do("seen", node.subject, self.visit(node.subject))
        for case in node.cases:  # a pattern is no expression
            case.guard = self.visit(case.guard) if case.guard else None
            case.body = [self.visit(each) for each in case.body]
        return node

    def visit_While(self, node: ast.While) -> ast.AST:
        self.generic_visit(node)
        node.body.insert(0, self._go_on(node))
        return node

    def visit_For(self, node: ast.For) -> ast.AST:
        self.generic_visit(node)
        node.body.insert(0, self._go_on(node))
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        self.generic_visit(node)
        node.ifs.append(self._do("go_on", node.target))
        return node

    def visit_Try(self, node: ast.Try) -> ast.AST:
        if node.handlers:
            self._guard(node.body)
        return self.generic_visit(node)

    def visit_TryStar(self, node: ast.TryStar) -> ast.AST:
        self._guard(node.body)
        return self.generic_visit(node)

    def visit_With(self, node: ast.With) -> ast.AST:
        if not all(_hides_nothing(item.context_expr) for item in node.items):
            self._guard(node.body)
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return node  # its annotation does nothing to values

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def _guard(self, body: list[ast.stmt]) -> None:
        for each in body:
            self.guarded.update(range(each.lineno, (each.end_lineno or 0) + 1))

    def _go_on(self, node: ast.stmt) -> ast.stmt:
        return ast.copy_location(ast.Expr(self._do("go_on", node)), node)

    def _do(
        self,
        name: str,
        node: ast.AST,
        *args: ast.expr,
        keywords: list[ast.keyword] | None = None,
    ) -> ast.expr:
        """Return the call of an operation in the place of *node*."""
        operations = ast.copy_location(ast.Constant(_NAME), node)
        func = ast.Attribute(operations, name, ast.Load())
        made = ast.Call(ast.copy_location(func, node), list(args), keywords or [])
        return ast.copy_location(made, node)


def _hides_nothing(context: ast.expr) -> bool:
    called = context.func if isinstance(context, ast.Call) else context
    name = (
        called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    )
    return name in _OPEN_WITH


_COMPARED: Mapping[type, str] = {
    ast.In: "contains",
    ast.NotIn: "contains",
    ast.Is: "identical",
    ast.IsNot: "identical",
}
