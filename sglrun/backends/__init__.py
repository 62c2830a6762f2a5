"""The backends: the model side, behind one protocol, and the table of their names."""

import importlib
from collections.abc import Callable, Mapping

from sglrun.backends.base import Backend, BackendOptions
from sglrun.errors import ConfigError

# A backend's module is imported when its name is asked for, so that an absent
# optional library costs nothing.
BACKENDS: Mapping[str, str] = {
    "auto": "sglrun.backends.auto",
    "local": "sglrun.backends.local",
    "sglang": "sglrun.backends.sglang",
    "openai": "sglrun.backends.openai",
    "anthropic": "sglrun.backends.anthropic",
    "mock": "sglrun.backends.mock",
}


def create_backend(name: str, options: BackendOptions) -> Backend:
    """Return the backend called *name*, ready to answer.

    Every backend's module has a function ``create(options) -> Backend``.

    Raises:
        ConfigError: no backend has this name.
        BackendError: the server does not answer or refuses.
        ModelError: the embedded engine has no model.
    """
    if name not in BACKENDS:
        known = ", ".join(sorted(BACKENDS))
        raise ConfigError(f"unknown backend {name!r} (one of: {known})")
    if options.more_urls:
        several = importlib.import_module("sglrun.backends.several")
        made: Backend = several.create_several(name, options)
        return made
    module = importlib.import_module(BACKENDS[name])
    create: Callable[[BackendOptions], Backend] = module.create
    return create(options)
