"""The manifest."""

import base64
import json
import resource
from dataclasses import replace
from pathlib import Path

import pytest

from sglrun.backends.secrets import Secrets
from sglrun.batch.manifest import Manifest, read_manifest, write_manifest

MANIFEST = Manifest(
    state="complete",
    identity={"model": "m1"},
    started="2026-01-02T03:04:05+00:00",
    about={"command": "sglrun batch"},
    rows=2,
    size_bytes=10,
    sha256="ab",
    keys=bytes(range(32)),
)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """A manifest comes back as it was, and nothing else is left."""
    path = tmp_path / "out.run.json"
    write_manifest(path, MANIFEST)

    assert read_manifest(path) == MANIFEST
    assert list(tmp_path.iterdir()) == [path]


def test_a_manifest_is_json(tmp_path: Path) -> None:
    """Others read a manifest as the JSON that it is, however many rows it has."""
    path = tmp_path / "out.run.json"
    many = replace(MANIFEST, keys=bytes(range(256)) * 1000)
    write_manifest(path, many)
    read = json.loads(path.read_text())

    assert read["identity"] == {"model": "m1"}
    assert base64.b64decode(read["keys"]) == many.keys
    assert read_manifest(path) == many


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "{}", '{"state": "complete"}', "\udcff"]
)
def test_what_is_no_manifest_is_none(tmp_path: Path, content: str) -> None:
    """A file that is damaged or of another kind is as good as none."""
    path = tmp_path / "out.run.json"
    path.write_text(content, "utf-8", "surrogateescape")

    assert read_manifest(path) is None
    assert read_manifest(tmp_path / "absent") is None


def test_a_manifest_of_another_version_is_none(tmp_path: Path) -> None:
    """A manifest whose layout is not known is not guessed at."""
    path = tmp_path / "out.run.json"
    write_manifest(path, MANIFEST)
    path.write_text(path.read_text().replace('"layout": 1', '"layout": 99'))

    assert read_manifest(path) is None


def test_secrets_are_not_written(tmp_path: Path) -> None:
    """A key in what is told about a run does not reach the disk; all else does."""
    path = tmp_path / "out.run.json"
    secrets = Secrets(["m1-m1-m1-m1", "20260101"])
    about = {"note": "bad m1-m1-m1-m1", "rows": 20260101}
    identity = {"model": "m1-m1-m1-m1"}
    write_manifest(
        path, replace(MANIFEST, about=about, identity=identity), secrets=secrets
    )
    read = read_manifest(path)

    assert read is not None
    assert read.about == {"note": "bad ***", "rows": 20260101}
    assert read.identity == identity


def test_a_manifest_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    """On a full disk the manifest stays as it was, and no half of another beside it."""
    path = tmp_path / "out.run.json"
    write_manifest(path, MANIFEST)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            write_manifest(path, replace(MANIFEST, keys=bytes(10_000)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert read_manifest(path) == MANIFEST
    assert list(tmp_path.iterdir()) == [path]
