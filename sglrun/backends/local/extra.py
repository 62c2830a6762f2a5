"""The extra ``local``: the engine's modules, loaded when they are asked for."""

import importlib
from types import ModuleType

from sglrun.errors import ConfigError

# The libraries of the extra, by the names they are imported under.
LIBRARIES = frozenset({"jinja2", "numpy", "xllamacpp"})


def load_part(name: str) -> ModuleType:
    """Return the module *name* of the embedded engine.

    Raises:
        ConfigError: a library that it needs is not installed.
    """
    try:
        return importlib.import_module(f"sglrun.backends.local.{name}")
    except ModuleNotFoundError as exc:
        if exc.name not in LIBRARIES:
            raise
        raise missing_library(exc.name) from exc


def missing_library(name: str | None) -> ConfigError:
    """Return the error that says how to install the library *name*."""
    return ConfigError(
        f"the embedded engine needs {name}, which is not installed here: "
        "pip install 'sglrun[local]' (or give a server with --url)"
    )
