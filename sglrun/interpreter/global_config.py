"""The global configuration: what SGLang programs expect of the whole process.

It exists for programs and scripts; ``batch`` and ``run`` hand everything on by hand.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from sglrun.backends.base import Backend
from sglrun.errors import ProgramError

_HOW = (
    "one is RuntimeEndpoint('http://host:port'), or the embedded model: "
    "sglrun.backends.create_backend('local', sglrun.backends.base.BackendOptions())"
)


@dataclass(slots=True)
class GlobalConfig:
    """Settings of the process, named as in SGLang.

    Attributes:
        default_backend: used where a program is run without one.
        enable_precache_with_tracing: send the shared prefix of a batch first.
        offered_backend: that of the command's options, where they name one; what
            the author's code leaves open runs on it.
        replaces_backends: it takes the place of every backend that the code names.
        not_started: ports at which code would have started a server for itself; what
            is asked there runs on the offered backend.
        prepare: what a backend that the code names is wrapped in, when it is opened.
        enable_parallel_encoding: ``join("concate_and_append")`` puts together what the
            backend computed of each branch, where it can; the branches then have not
            seen each other. Off, as the text is read anew, unless someone sets it.
        verbosity: accepted as in the reference, and without effect, as are the next.
        skip_special_tokens_in_output: the same.
        spaces_between_special_tokens_in_out: the same.
    """

    default_backend: Backend | None = None
    enable_precache_with_tracing: bool = True
    offered_backend: Backend | None = None
    replaces_backends: bool = False
    not_started: set[int] = field(default_factory=set)
    prepare: Callable[[Backend], Backend] | None = None
    enable_parallel_encoding: bool = False
    verbosity: int = 0
    skip_special_tokens_in_output: bool = True
    spaces_between_special_tokens_in_out: bool = True

    def stands_in_for(self, url: str) -> bool:
        """Return whether a server at *url* was to be started, and was not."""
        try:
            return urlsplit(url).port in self.not_started
        except ValueError:
            return False

    def require_backend(self) -> Backend:
        """Return the default backend.

        Raises:
            ProgramError: none is set.
        """
        backend = self.default_backend or self.offered_backend
        if backend is None:
            raise ProgramError(
                "no backend: pass backend=..., or call set_default_backend(...) first; "
                f"{_HOW}"
            )
        return backend


global_config = GlobalConfig()


def may_join(backend: Backend) -> bool:
    """Return whether branches are joined by what *backend* computed of them.

    Someone must have asked for it; that it cannot be had is said in a warning.
    """
    if not global_config.enable_parallel_encoding:
        return False
    if not backend.capabilities.concatenation:
        warnings.warn(
            f"{backend.kind!r} cannot join what it computed of branches "
            "(enable_parallel_encoding); it reads their text",
            stacklevel=4,
        )
    return backend.capabilities.concatenation


def set_default_backend(backend: Backend) -> None:
    """Use *backend* wherever a program is run without one.

    Raises:
        TypeError: it is only the name of one.
    """
    global_config.default_backend = need_backend(backend)


def need_backend(given: Backend) -> Backend:
    """Return *given*, which a caller took for a backend.

    Raises:
        TypeError: it is only the name of one.
    """
    if isinstance(given, str):
        raise TypeError(f"{given!r} is no backend; {_HOW}")
    return given


def flush_cache(backend: Backend | None = None) -> bool:
    """Have *backend*, or the default one, forget cached prefixes; waits.

    Returns whether it could; ``False`` without a backend.
    """
    asked = backend or global_config.default_backend
    return False if asked is None else asked.flush_cache()


def get_server_info(backend: Backend | None = None) -> Mapping[str, object] | None:
    """Return what *backend*, or the default one, tells about itself; waits.

    ``None`` without a backend.
    """
    asked = backend or global_config.default_backend
    return None if asked is None else asked.get_server_info()
