"""What a command loads before it does anything."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.process import ROOT, WAIT_S, environment

HEAVY = {"numpy", "pydantic", "requests", "rich", "xllamacpp"}


@pytest.mark.parametrize("arguments", [["--help"], ["batch", "--help"], ["--version"]])
def test_help_is_light(tmp_path: Path, arguments: list[str]) -> None:
    """Help comes without the libraries that only work needs."""
    run = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "sglrun", *arguments],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
        cwd=ROOT,
        env=environment(tmp_path),
    )
    loaded = {
        line.rpartition("|")[2].strip().partition(".")[0]
        for line in run.stderr.splitlines()
    }

    assert run.returncode == 0
    assert "typer" in loaded
    assert loaded & HEAVY == set()
