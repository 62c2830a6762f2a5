"""The embedded engine: a model in this process, on the processor, with no server.

Rule: nothing here imports the engine's libraries; its modules are loaded when a
backend is created, so that the rest of sglrun works without them.
"""

from sglrun.backends.base import Backend, BackendOptions
from sglrun.backends.local.extra import load_part


def create(options: BackendOptions) -> Backend:
    """Return the embedded engine with its model loaded; waits for the load.

    Of *options* it reads ``model`` (the name or path of a GGUF file; without it the
    bundled model), ``chat_template`` (without it the model file's own) and ``exact``.

    Raises:
        ConfigError: the engine's libraries are missing or cannot be used here.
        ModelError: there is no such model, or it cannot be loaded.
    """
    backend: Backend = load_part("backend").start_backend(options)
    return backend
