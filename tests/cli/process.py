"""The real command, as a process of its own."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
WAIT_S = 60


def command(*arguments: str) -> Sequence[str]:
    """Return the words that start ``sglrun`` with *arguments*."""
    return [sys.executable, "-m", "sglrun", *arguments]


def environment(home: Path, **more: str) -> Mapping[str, str]:
    """Return the variables of a user who has set nothing but *more*."""
    return {
        "HOME": str(home),
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "PYTHONWARNINGS": "error::ResourceWarning",
        **more,
    }


def sglrun(
    *arguments: str, folder: Path, stdin: str = "", **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run ``sglrun`` in *folder* to its end."""
    return subprocess.run(
        command(*arguments),
        input=stdin,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=WAIT_S,
        check=False,
        cwd=folder,
        env=environment(folder, **variables),
    )
