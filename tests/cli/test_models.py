"""``sglrun models``, in a real process."""

import struct
from pathlib import Path

from tests.cli.process import sglrun


def test_without_models_the_way_to_one_is_told(tmp_path: Path) -> None:
    """An empty store lists nothing and says how to fetch the bundled model."""
    run = sglrun("models", folder=tmp_path, SGLRUN_CACHE=str(tmp_path))

    assert run.returncode == 0
    assert run.stdout == ""
    assert "sglrun models pull  fetches" in run.stderr
    assert "MB, Apache-2.0)" in run.stderr


def test_models_are_listed(tmp_path: Path) -> None:
    """What lies in the store is listed on stdout with what it takes."""
    folder = tmp_path / "models"
    folder.mkdir()
    header = b"GGUF" + struct.pack("<IQQ", 3, 0, 0)
    (folder / "tiny.gguf").write_bytes(header + bytes(3_000_000))
    (folder / "torn.gguf").write_bytes(b"PK" + bytes(2_000_000))
    run = sglrun("models", folder=tmp_path, SGLRUN_CACHE=str(tmp_path))

    assert run.stdout == (
        "tiny  3 MB, in memory 7 MB with 16,384 tokens\n"
        f"torn  2 MB, but {folder / 'torn.gguf'} is not a GGUF file of version 3\n"
    )


def test_a_model_that_is_there_is_not_fetched(tmp_path: Path) -> None:
    """``pull`` leaves a model alone that is there already."""
    (tmp_path / "models").mkdir()
    model = tmp_path / "models" / "smollm2-135m-instruct.gguf"
    model.write_bytes(b"GGUF")
    run = sglrun("models", "pull", folder=tmp_path, SGLRUN_CACHE=str(tmp_path))

    assert run.returncode == 0
    assert run.stdout == ""
    assert str(model) in run.stderr
