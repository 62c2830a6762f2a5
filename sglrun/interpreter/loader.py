"""The loader: from what a user types to a program."""

import ast
import importlib
import importlib.util
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from sglrun.errors import ProgramLoadError
from sglrun.interpreter.definitions import collecting
from sglrun.interpreter.failure import raising_place
from sglrun.interpreter.program import Program
from sglrun.interpreter.reference import resolve
from sglrun.interpreter.sglang.finder import serve_sglang


def load_program(spec: str) -> Program:
    """Load the program that *spec* names, running the code of its module.

    ``import sglang`` in that code, and later, is served by sglrun. The code is run no
    further than to where it would run a program, which a warning says.

    Args:
        spec: ``path.py``, ``path.py:name`` or ``package.module:name``. Without a name
            the module must define exactly one program. In place of a name may stand a
            call with literal arguments: ``path.py:make(lang="fr")`` is the program
            that ``make`` returns or would run, ``path.py:main().triage`` the one
            called ``triage`` that is defined inside ``main``, and
            ``path.py:__main__("--shots", 3).triage`` the one that the script defines
            when it is run with these arguments.

    Raises:
        ProgramLoadError: no such file or module, its code raised, no such program in
            it, or several and none named.
    """
    serve_sglang()
    place, name = _split(spec)
    module = _load_file(place) if place.endswith(".py") else _load_module(place)
    if name:
        return _referred(module, name, place)
    programs = _own_programs(module)
    if len(programs) == 1:
        return next(iter(programs.values()))
    if not programs:
        raise ProgramLoadError(
            f"{place} has no program: decorate a function with @sgl.function"
        )
    names = ", ".join(programs)
    raise ProgramLoadError(
        f"{place} has {len(programs)} programs ({names}); "
        f"say which, as {place}:{next(iter(programs))}"
    )


def reference_in(spec: str) -> str:
    """Return what finds a program in its module in *spec*, always spelled the same.

    Raises:
        SyntaxError: ``load_program`` refuses it.
    """
    _, name = _split(spec)
    return ast.unparse(ast.parse(name, mode="eval")) if name else ""


def _split(spec: str) -> tuple[str, str]:
    if Path(spec).is_file():
        return spec, ""
    file, is_file, name = spec.partition(".py:")
    if is_file:
        return f"{file}.py", name
    place, _, name = spec.partition(":")
    return place, name


def _load_file(place: str) -> ModuleType:
    path = Path(place)
    if not path.is_file():
        what = "is a directory" if path.is_dir() else "does not exist"
        raise ProgramLoadError(f"the program file {place!r} {what}")
    folder = str(path.resolve().parent)
    if folder not in sys.path:  # what stands beside the program is importable
        sys.path.insert(0, folder)
    name = f"sglrun_program_{path.stem}"
    found = importlib.util.spec_from_file_location(name, path.resolve())
    if found is None or found.loader is None:
        raise ProgramLoadError(f"the program file {place!r} cannot be imported")
    module = importlib.util.module_from_spec(found)
    # dataclasses and pickle look a class's module up by its name.
    sys.modules[name] = module
    loader = found.loader
    _run_code(lambda: loader.exec_module(module), place, str(path.resolve()))
    return module


def _load_module(place: str) -> ModuleType:
    if not all(part.isidentifier() for part in place.split(".")):
        raise ProgramLoadError(
            f"{place!r} is neither a .py file nor a module; "
            "a program is path.py, path.py:name or package.module:name"
        )
    if "" not in sys.path:
        sys.path.insert(0, "")
    loaded: list[ModuleType] = []
    try:
        _run_code(lambda: loaded.append(importlib.import_module(place)), place, place)
    except ProgramLoadError as exc:
        missing = exc.__cause__
        if not isinstance(missing, ModuleNotFoundError):
            raise
        if not f"{place}.".startswith(f"{missing.name}."):
            raise
        raise ProgramLoadError(f"there is no module {place!r}") from missing
    if not loaded:
        raise ProgramLoadError(
            f"the module {place!r} runs a program while it is imported; put that "
            "under 'if __name__ == \"__main__\"', or name the file"
        )
    module = loaded[0]
    # Python takes a folder without code for a package.
    if getattr(module, "__file__", "") is None:
        raise ProgramLoadError(
            f"{place!r} is a directory; a program is path.py, path.py:name or "
            "package.module:name"
        )
    return module


def _run_code(run: Callable[[], None], place: str, file: str) -> None:
    """Run the code of a module, up to where it would run a program."""
    try:
        with collecting() as definitions:
            run()
    except (Exception, SystemExit) as exc:
        raise _broken(place, exc, file) from exc
    if definitions.stopped_by is not None:
        warnings.warn(
            f"{place} runs {definitions.stopped_by.name!r} while it is loaded; it is "
            "loaded up to there and nothing was run",
            stacklevel=2,
        )


def _referred(module: ModuleType, name: str, place: str) -> Program:
    try:
        return resolve(module, name, place)
    except ProgramLoadError:
        raise
    except (Exception, SystemExit) as exc:
        raise _broken(f"{place}:{name}", exc, str(module.__file__)) from exc


def _broken(place: str, exc: BaseException, file: str) -> ProgramLoadError:
    where = raising_place(exc, file) or place
    what = exc.msg if isinstance(exc, SyntaxError) else exc  # else says the line twice
    error = ProgramLoadError(
        f"{place} cannot be loaded: {type(exc).__name__}: {what} ({where})"
    )
    if isinstance(exc, ModuleNotFoundError):
        error.add_note(f"install {exc.name!r} beside sglrun, or put it next to {place}")
    return error


def _own_programs(module: ModuleType) -> dict[str, Program]:
    every = {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, Program)
    }
    own = {
        name: program
        for name, program in every.items()
        if program.func.__module__ == module.__name__
    }
    return own or every
