"""Changing globals: the names of a module that its own functions change.

A program that counts its rows, or keeps what earlier ones said, says another thing for
each; whoever reads such a name gets what is not known.
"""

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping

_KNOWN = frozenset({*sys.stdlib_module_names, "sglrun", "sglang"})
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda

_CHANGERS = """
    add append appendleft clear discard extend insert pop popitem popleft remove
    reverse rotate setdefault sort update
"""


def changing_names(module: ast.Module) -> Mapping[str, tuple[int, ...]]:
    """Return the globals of *module* that functions of it change.

    With each come the first lines of these functions.
    """
    held = {name for each in module.body for name in _stored(each)}
    found: dict[str, set[int]] = defaultdict(set)
    for node in ast.walk(module):
        if isinstance(node, Function):
            for name in (_changed(node) - own_names(node)) & held:
                found[name].add(_first_line(node))
    return {name: tuple(sorted(lines)) for name, lines in found.items()}


def plain_lines(module: ast.Module) -> frozenset[int]:
    """Return the first lines of the functions that change nothing but their own.

    Nor do they call one that does, or one of another module that is not Python's.
    """
    functions = [node for node in ast.walk(module) if isinstance(node, Function)]
    names = set(_imported(module))
    changing = [
        func
        for func in functions
        if _changed(func) - _new_names(func) or names & set(_used(func))
    ]
    before: list[Function] = []
    while len(changing) > len(before):
        before = changing
        names |= {each.name for each in changing if not isinstance(each, ast.Lambda)}
        changing = [
            func for func in functions if func in before or names & set(_used(func))
        ]
    return frozenset(_first_line(func) for func in functions if func not in changing)


def _imported(module: ast.Module) -> Iterator[str]:
    """Iterate over the names of what is neither Python's nor sglrun's."""
    for node in ast.walk(module):
        if isinstance(node, ast.Import | ast.ImportFrom):
            place = getattr(node, "module", None)
            for alias in node.names:
                root = (place or alias.name).partition(".")[0]
                if root not in _KNOWN:
                    yield (alias.asname or alias.name).partition(".")[0]


def _used(func: ast.AST) -> Iterator[str]:
    for node in ast.walk(func):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr


def _new_names(func: Function) -> set[str]:
    """Return the names that the function gives values to itself."""
    arguments = {node.arg for node in ast.walk(func) if isinstance(node, ast.arg)}
    return set(_stored(func)) - arguments - _declared(func)


def own_names(func: Function) -> set[str]:
    """Return the names that are the function's own, its inner functions' too."""
    arguments = {node.arg for node in ast.walk(func) if isinstance(node, ast.arg)}
    return (arguments | set(_stored(func))) - _declared(func)


def _first_line(func: Function) -> int:
    decorators = [] if isinstance(func, ast.Lambda) else func.decorator_list
    return min([func.lineno, *(each.lineno for each in decorators)])


def _declared(func: ast.AST) -> set[str]:
    every = (node for node in ast.walk(func) if isinstance(node, ast.Global))
    return {name for node in every for name in node.names}


def _changed(func: ast.AST) -> set[str]:
    found = _declared(func) & set(_stored(func))
    for node in ast.walk(func):
        if isinstance(node, ast.Subscript | ast.Attribute):
            if not isinstance(node.ctx, ast.Load):
                found |= _base(node.value)
        elif isinstance(node, ast.Call):
            found |= _changed_by(node)
    return found


def _changed_by(call: ast.Call) -> set[str]:
    if isinstance(call.func, ast.Attribute):
        changes = call.func.attr in _CHANGERS.split()
        return _base(call.func.value) if changes else set()
    if isinstance(call.func, ast.Name) and call.func.id == "next" and call.args:
        return _base(call.args[0])
    return set()


def _stored(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id


def _base(node: ast.expr) -> set[str]:
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return {node.id} if isinstance(node, ast.Name) else set()
