"""A reference: what stands after the colon of ``path.py:name``, and what it finds."""

import ast
import runpy
import sys
from functools import partial
from types import ModuleType

from sglrun.errors import ProgramLoadError
from sglrun.interpreter.definitions import Definitions, collecting
from sglrun.interpreter.program import Program


def resolve(module: ModuleType, reference: str, place: str) -> Program:
    """Return the program that *reference* finds in *module*.

    Args:
        module: where to look.
        reference: ``name``; ``group.name``; ``make()`` or ``make(lang="fr")``, for the
            program that a function returns or would run; ``main().name`` for one that
            is defined inside a function; ``__main__("--shots", 3).name`` for one that
            a script defines when it is run with these arguments. A call is left where
            it would run a program, so no model is asked. Arguments are literals.
        place: how an error calls the module.

    Raises:
        ProgramLoadError: the reference cannot be read, or finds no program.
        Exception: what the author's code raised.
    """
    try:
        tree = ast.parse(reference, mode="eval").body
    except SyntaxError as exc:
        raise _unreadable(reference) from exc
    found = _Finder(module, reference, place).find(tree)
    if isinstance(found, Program):
        return found
    what = f"{reference!r} in {place}"
    if callable(found):
        raise ProgramLoadError(
            f"{what} is a function and no program; if it makes one, "
            f"write {place}:{reference}()"
        )
    raise ProgramLoadError(f"{what} is {type(found).__name__} and no program")


class _Finder:
    def __init__(self, module: ModuleType, reference: str, place: str) -> None:
        self._module = module
        self._reference = reference
        self._place = place

    def find(self, node: ast.expr) -> object:
        match node:
            case ast.Name(id=name):
                return self._attribute(self._module, name)
            case ast.Attribute(value=ast.Call() as call, attr=name):
                return self._inside(call, name)
            case ast.Attribute(value=value, attr=name):
                return self._attribute(self.find(value), name)
            case ast.Call():
                definitions, returned = self._call(node)
                return self._made(definitions, returned)
            case _:
                raise _unreadable(self._reference)

    def _attribute(self, owner: object, name: str) -> object:
        if isinstance(owner, dict) and name in owner:
            return owner[name]
        if not hasattr(owner, name):
            programs = [key for key, value in _programs(self._module)]
            raise ProgramLoadError(
                f"{name!r} does not exist in {self._place} "
                f"(programs: {', '.join(programs) or 'none'})"
            )
        return getattr(owner, name)

    def _inside(self, call: ast.Call, name: str) -> object:
        definitions, returned = self._call(call)
        if name in definitions.programs:
            return definitions.programs[name]
        found = returned.get(name) if isinstance(returned, dict) else None
        found = found or getattr(returned, name, None)
        if found is None:
            raise self._nothing(call, definitions, f"program {name!r}")
        return found

    def _made(self, definitions: Definitions, returned: object) -> object:
        candidates = (returned, definitions.stopped_by, *definitions.programs.values())
        programs = [each for each in candidates if isinstance(each, Program)]
        if not programs:
            raise ProgramLoadError(
                f"{self._reference} in {self._place} makes no program: it returned "
                f"{returned!r}, and ran or defined none"
            )
        decided = isinstance(candidates[0], Program) or candidates[1] is not None
        if not decided and len(programs) > 1:
            names = ", ".join(definitions.programs)
            raise ProgramLoadError(
                f"{self._reference} in {self._place} defines {len(programs)} programs "
                f"({names}); say which, as {self._place}:{self._reference}."
                f"{programs[0].name}"
            )
        return programs[0]

    def _call(self, call: ast.Call) -> tuple[Definitions, object]:
        function = self._called(call.func)
        if not callable(function):
            raise ProgramLoadError(
                f"{ast.unparse(call.func)!r} in {self._place} cannot be called"
            )
        args = [self._literal(arg) for arg in call.args]
        kwargs = {str(pair.arg): self._literal(pair.value) for pair in call.keywords}
        returned = None
        with collecting() as definitions:
            returned = function(*args, **kwargs)
        return definitions, returned

    def _called(self, node: ast.expr) -> object:
        if isinstance(node, ast.Name) and node.id == "__main__":
            return partial(_run_as_script, str(self._module.__file__))
        return self.find(node)

    def _literal(self, node: ast.expr) -> object:
        try:
            return ast.literal_eval(node)
        except ValueError as exc:
            raise ProgramLoadError(
                f"{ast.unparse(node)!r} in {self._reference!r} is no literal: a text, "
                "a number, True, False, None, or a list or dict of these"
            ) from exc

    def _nothing(
        self, call: ast.Call, definitions: Definitions, what: str
    ) -> ProgramLoadError:
        names = ", ".join(definitions.programs) or "none"
        return ProgramLoadError(
            f"{ast.unparse(call)} in {self._place} defines no {what} before it would "
            f"run one (programs: {names})"
        )


def _run_as_script(file: str, *arguments: object) -> None:
    before = sys.argv
    sys.argv = [file, *map(str, arguments)]
    try:
        runpy.run_path(file, run_name="__main__")
    finally:
        sys.argv = before


def _programs(module: ModuleType) -> list[tuple[str, Program]]:
    return [(k, v) for k, v in vars(module).items() if isinstance(v, Program)]


def _unreadable(reference: str) -> ProgramLoadError:
    return ProgramLoadError(
        f"{reference!r} names no program; after the colon comes a name, as "
        "prog.py:triage, prog.py:make(lang='fr') or prog.py:main().triage"
    )
