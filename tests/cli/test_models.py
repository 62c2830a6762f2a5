"""``sglrun models``, in a real process."""

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
    """What lies in the store is listed on stdout with its size."""
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "tiny.gguf").write_bytes(b"GGUF" + bytes(3_000_000))
    run = sglrun("models", folder=tmp_path, SGLRUN_CACHE=str(tmp_path))

    assert run.stdout == "tiny  3 MB\n"


def test_a_model_that_is_there_is_not_fetched(tmp_path: Path) -> None:
    """``pull`` leaves a model alone that is there already."""
    (tmp_path / "models").mkdir()
    model = tmp_path / "models" / "smollm2-135m-instruct.gguf"
    model.write_bytes(b"GGUF")
    run = sglrun("models", "pull", folder=tmp_path, SGLRUN_CACHE=str(tmp_path))

    assert run.returncode == 0
    assert run.stdout == ""
    assert str(model) in run.stderr
