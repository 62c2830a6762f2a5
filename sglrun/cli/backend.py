"""The backend of a command: that of the options, or the one that the code names."""

from collections.abc import Callable

from sglrun.backends import create_backend
from sglrun.backends.base import Backend
from sglrun.config import RunConfig
from sglrun.errors import ConfigError
from sglrun.interpreter.global_config import global_config
from sglrun.interpreter.sglang.lazy_backend import LazyBackend


def offer_backend(
    config: RunConfig, *, prepare: Callable[[Backend], Backend] | None = None
) -> LazyBackend:
    """Return the options' backend, and offer it to the code that is loaded next.

    Nothing is opened. What the code leaves open, such as ``Runtime(...)``, is the
    offered backend where the user named one.

    Args:
        config: what the user said.
        prepare: what the backend is wrapped in, when it is opened.
    """

    def make() -> Backend:
        made = create_backend(config.backend_name, config.backend_options)
        if joins and not made.capabilities.concatenation:
            made.close()
            raise ConfigError(
                f"{made.kind!r} cannot join what it computed of branches; "
                "leave out --parallel-encoding, or use -b local"
            )
        return made if prepare is None else prepare(made)

    joins = config.backend.parallel_encoding
    global_config.enable_parallel_encoding = joins
    backend = LazyBackend(config.backend_name, make)
    global_config.offered_backend = backend if config.names_backend else None
    global_config.replaces_backends = False
    global_config.default_backend = None
    return backend


def chosen_backend(config: RunConfig, offered: LazyBackend) -> Backend:
    """Return the backend to run on, opened; call it after the code is loaded.

    It is the one that the user named, else the default that the code has set, else
    the one that is used where nobody says anything.

    Raises:
        SglrunError: it cannot be opened.
    """
    own = global_config.default_backend
    if config.names_backend or own is None:
        return offered.opened()
    if isinstance(own, LazyBackend):
        own.opened()
    return own
