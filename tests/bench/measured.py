"""A command measured from outside: its processor time, its memory, its wall time."""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a command cost.

    Attributes:
        cpu_s: processor time, its own and the kernel's for it.
        wall_s: from its start to its end.
        peak_mb: the most memory it held.
    """

    cpu_s: float
    wall_s: float
    peak_mb: float


def measure(words: Sequence[str], folder: Path) -> Measured:
    """Run *words* in *folder* to their end, stdout thrown away.

    Raises:
        SystemExit: the command failed.
    """
    began = time.perf_counter()
    process = subprocess.Popen(
        words,
        stdout=subprocess.DEVNULL,
        cwd=folder,
        # As installed: bytecode is written by the first run, and read by the others.
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": ""},
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(words)} ended with {process.returncode}")
    return Measured(
        cpu_s=used.ru_utime + used.ru_stime,
        wall_s=time.perf_counter() - began,
        peak_mb=used.ru_maxrss / 1024,
    )


def sglrun(*words: str) -> list[str]:
    """Return the words that start ``sglrun batch`` quietly."""
    return [sys.executable, "-m", "sglrun", "batch", *words, "-q"]
