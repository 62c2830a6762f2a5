"""The loader: from what a user types to a program."""

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from sglrun.errors import ProgramLoadError
from sglrun.interpreter.failure import raising_place
from sglrun.interpreter.program import Program


def load_program(spec: str) -> Program:
    """Load the program that *spec* names, running the code of its module.

    Args:
        spec: ``path.py``, ``path.py:name`` or ``package.module:name``. Without a name
            the module must define exactly one program.

    Raises:
        ProgramLoadError: no such file or module, its code raised, no such program in
            it, or several and none named.
    """
    place, name = _split(spec)
    module = _load_file(place) if place.endswith(".py") else _load_module(place)
    if name:
        return _named(module, name, place)
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


def _split(spec: str) -> tuple[str, str]:
    place, colon, name = spec.rpartition(":")
    if not colon or Path(spec).is_file():
        return spec, ""
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
    try:
        found.loader.exec_module(module)
    except (Exception, SystemExit) as exc:
        raise _broken(place, exc, str(path.resolve())) from exc
    return module


def _load_module(place: str) -> ModuleType:
    if not all(part.isidentifier() for part in place.split(".")):
        raise ProgramLoadError(
            f"{place!r} is neither a .py file nor a module; "
            "a program is path.py, path.py:name or package.module:name"
        )
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as exc:
        if exc.name is not None and f"{place}.".startswith(f"{exc.name}."):
            raise ProgramLoadError(f"there is no module {place!r}") from exc
        raise _broken(place, exc, place) from exc
    except (Exception, SystemExit) as exc:
        raise _broken(place, exc, place) from exc


def _broken(place: str, exc: BaseException, file: str) -> ProgramLoadError:
    where = raising_place(exc, file) or place
    error = ProgramLoadError(
        f"{place} cannot be loaded: {type(exc).__name__}: {exc} ({where})"
    )
    if isinstance(exc, ModuleNotFoundError):
        error.add_note(f"install {exc.name!r} beside sglrun, or put it next to {place}")
    return error


def _named(module: ModuleType, name: str, place: str) -> Program:
    found = getattr(module, name, None)
    if isinstance(found, Program):
        return found
    programs = ", ".join(_own_programs(module)) or "none"
    what = "is not a program" if found is not None else "does not exist"
    raise ProgramLoadError(f"{name!r} {what} in {place} (programs: {programs})")


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
