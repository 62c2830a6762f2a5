"""The engine's shared library: found, checked and silenced before it is called."""

import ctypes
import functools
import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from sglrun.backends.local.extra import missing_library
from sglrun.backends.local.layout import (
    CONTEXT_DEFAULTS,
    MODEL_DEFAULTS,
    PACKAGE,
    SIGNATURES,
    VERSION,
    LogFunction,
)
from sglrun.errors import ConfigError

Result = TypeVar("Result")

# How long an idle worker of the library spins before it sleeps. Its own default takes
# the processor from every other program, and a busy machine down to a tenth of its
# speed; a user's own setting wins. It is read when the library is opened.
_SPIN_COUNT = ("GOMP_SPINCOUNT", "2000")
# Where the library ends the process, it would also start a debugger to say where.
_NO_BACKTRACE = ("GGML_NO_BACKTRACE", "1")

# Calls that take less time than to hand the interpreter to another thread and to get it
# back, so they keep it.
_QUICK = frozenset(
    {"llama_get_logits_ith", "llama_memory_seq_cp", "llama_memory_seq_rm"}
)

_INSTEAD = "give a server with --url instead"


# The library's own number of errors among its messages.
_ERROR = 4
_reasons: list[str] = []  # the first that it gave since somebody began to listen


def _hear(level: int, text: bytes, _data: int | None) -> None:
    """Keep why the library fails, without the name of its function; drop the rest."""
    if level == _ERROR and not _reasons:
        said = text.decode("utf-8", "replace").strip()
        _reasons.append(said.partition(": ")[2] or said)


# The library keeps its address, so it must live as long as the process.
_hear_message = LogFunction(_hear)


def with_reason(call: Callable[[], Result]) -> tuple[Result, str]:
    """Return what *call* returns, and the reason that the library gives if it fails."""
    _reasons.clear()
    result = call()
    return result, next(iter(_reasons), "the library does not say why")


@functools.cache
def open_library() -> ctypes.CDLL:
    """Return the library, opened once in a process and ready to be called.

    Raises:
        ConfigError: it is not installed, has another version or layout, or does not
            run on this system.
    """
    path = _library_path()
    os.environ.setdefault(*_SPIN_COUNT)
    os.environ.setdefault(*_NO_BACKTRACE)
    try:
        library = ctypes.CDLL(str(path))
    except OSError as exc:
        raise ConfigError(
            f"the embedded engine's library does not load here: {exc} ({_INSTEAD})"
        ) from exc
    _declare(library, ctypes.PyDLL(str(path)))
    hear = ctypes.cast(_hear_message, ctypes.c_void_p)
    library.llama_log_set(hear, None)
    library.ggml_log_set(hear, None)
    _check(library.llama_model_default_params(), MODEL_DEFAULTS)
    _check(library.llama_context_default_params(), CONTEXT_DEFAULTS)
    library.llama_backend_init()
    return library


def _library_path() -> Path:
    if sys.platform == "win32":
        raise ConfigError(f"the embedded engine does not run on Windows; {_INSTEAD}")
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise missing_library(PACKAGE)
    try:
        found = importlib.metadata.version(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        found = "one without a version"
    if found != VERSION:
        raise ConfigError(
            f"the embedded engine is made for {PACKAGE} {VERSION}, not {found}: "
            f"pip install '{PACKAGE}=={VERSION}'"
        )
    paths = sorted(Path(spec.origin).parent.glob(f"{PACKAGE}*.so"))
    if not paths:
        raise ConfigError(f"{PACKAGE} {VERSION} has no library here; {_INSTEAD}")
    return paths[0]


def _declare(library: ctypes.CDLL, keeping: ctypes.PyDLL) -> None:
    for name, (result, arguments) in SIGNATURES.items():
        try:
            function = getattr(keeping if name in _QUICK else library, name)
        except AttributeError as exc:
            raise ConfigError(
                f"{PACKAGE} {VERSION} does not export {name} on this system; {_INSTEAD}"
            ) from exc
        function.restype = result
        function.argtypes = arguments
        setattr(library, name, function)


def _check(params: ctypes.Structure, expected: Mapping[str, object]) -> None:
    for name, value in expected.items():
        found = getattr(params, name)
        if found != value:
            raise ConfigError(
                f"{PACKAGE} {VERSION} has another layout here: {name} is {found!r}, "
                f"not {value!r}; {_INSTEAD}"
            )
