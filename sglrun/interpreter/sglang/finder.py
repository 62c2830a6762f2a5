"""The finder that serves ``import sglang`` to programs.

It stands before an installed SGLang, so that a program means the same with and without
it. What sglrun does not serve is an ``ImportError`` that says so.

Rule: what the modules hold is loaded when one of them is asked for; many programs never
ask.
"""

import importlib
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

ROOT = "sglang"
_TREE = "sglrun.interpreter.sglang.modules"


def serve_sglang() -> None:
    """Serve ``import sglang`` from here on, also to code that imports it later.

    Safe to call twice. An SGLang that the process has imported already stays.
    """
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def withdraw_sglang() -> None:
    """Serve ``import sglang`` no longer; what was imported stays with its importer."""
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
    for name in tuple(sys.modules):
        loader = getattr(sys.modules[name], "__loader__", None)
        if isinstance(loader, _Loader):
            del sys.modules[name]


class _Loader(Loader):
    """Fills a served module."""

    def __init__(self, held: Mapping[str, object], children: Sequence[str]) -> None:
        self._held = held
        self._children = children

    def create_module(self, spec: ModuleSpec) -> None:
        """Leave the making to Python."""

    def exec_module(self, module: ModuleType) -> None:
        """Fill *module*; what is in it is over the modules below it.

        ``sglang.global_config`` is an object and a module: once every module below is
        there, importing one no longer hides the object.
        """
        name = module.__name__
        for child in self._children:
            importlib.import_module(f"{name}.{child}")
        module.__dict__.update(self._held)
        module.__doc__ = f"{name!r} of SGLang, served by sglrun."
        if "__version__" not in self._held:
            module.__dict__["__all__"] = sorted(self._held)

        def absent(attribute: str) -> object:
            raise AttributeError(_tree().not_served(f"{name}.{attribute}"))

        module.__dict__["__getattr__"] = absent


class _Finder(MetaPathFinder):
    """Finds the served modules, and refuses the others by name."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Return how *fullname* is served; ``None`` if it is no part of SGLang.

        Raises:
            ImportError: it is, and sglrun does not serve it.
        """
        del path, target
        root, _, name = fullname.partition(".")
        if root != ROOT:
            return None
        served = _tree().served_modules()
        if name not in served:
            # A ModuleNotFoundError would be swallowed by "from ... import ...".
            raise ImportError(_tree().not_served(fullname), name=fullname)
        loader = _Loader(served[name], tuple(_below(name, served)))
        # Every one is a package, so that "from ... import name" asks here too.
        return ModuleSpec(fullname, loader, origin="sglrun", is_package=True)


_finder = _Finder()


def _below(name: str, served: Mapping[str, object]) -> Sequence[str]:
    start = f"{name}." if name else ""
    rest = [other[len(start) :] for other in served if other.startswith(start)]
    return [child for child in rest if child and "." not in child]


def _tree() -> ModuleType:
    return importlib.import_module(_TREE)
