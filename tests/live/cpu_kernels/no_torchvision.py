"""A torchvision that only can be imported: SGLang does, and text models use none of it.

The packages of the registry are built for GPUs. Loaded by ``no_torchvision.pth``.
"""

import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Iterator
from typing import Any


class _Nothing(type):
    """A class whose members are classes that are nothing too."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _nothing(name)

    def __iter__(cls) -> Iterator[Any]:
        return iter(())


def _nothing(name: str) -> type:
    return _Nothing(name, (), {"__init__": lambda *_, **__: None})


class _Module(types.ModuleType):
    __version__ = "0.28.0"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _nothing(name)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(
        self, fullname: str, *_: Any
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition(".")[0] != "torchvision" or _transformers_asks():
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> _Module:
        module = _Module(spec.name)
        module.__path__ = []
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing is to be done."""


def _transformers_asks() -> bool:
    """Tell whether transformers looks for it, which would then use it."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__") == "transformers.utils.import_utils":
            inside = frame.f_code.co_name
            if inside.startswith(("_is_package", "is_torchvision")):
                return True
        frame = frame.f_back
    return False


sys.meta_path.insert(0, _Finder())
