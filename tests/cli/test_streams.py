"""The streams of the process when they are closed, full or left."""

import subprocess
from pathlib import Path

import pytest

from tests.cli.process import ROOT, WAIT_S, command, environment

PROGRAM = (
    "import sglrun as s\n@s.function\ndef p(s):\n    print('said')\n    s['a'] = 1\n"
)


def shell(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run *script*, in which ``$RUN`` is a run of a program that works."""
    (folder / "p.py").write_text(PROGRAM, "utf-8")
    words = " ".join(command("run", f"{folder}/p.py", "-b", "mock"))
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {script}"],  # noqa: S607 - a shell is the point
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
        cwd=ROOT,
        env=environment(folder, RUN=words),
    )


@pytest.mark.parametrize(
    ("script", "code", "err"),
    [
        ("$RUN 2>&-", 0, ""),
        ("$RUN 2>/dev/full", 0, ""),
        ("$RUN <&- 2>/dev/null", 0, ""),
        ("$RUN >&-", 2, "stdout is closed"),
        ("$RUN >/dev/full", 3, "stdout cannot be written: No space left on device"),
        ("$RUN | true", 141, "said\n"),
        ("$RUN >&- 2>&- <&-", 2, ""),
    ],
)
def test_the_exit_code_tells_what_became_of_the_results(
    tmp_path: Path, script: str, code: int, err: str
) -> None:
    """A lost stderr costs nothing; a lost stdout is told, or quiet if left."""
    run = shell(script, tmp_path)

    assert run.returncode == code
    assert err in run.stderr
    assert "Traceback" not in run.stderr
    assert "Exception ignored" not in run.stderr


def test_results_do_not_get_into_the_programs_file(tmp_path: Path) -> None:
    """With stdout closed, no file that is opened later is taken for it."""
    shell("$RUN >&-", tmp_path)

    assert (tmp_path / "p.py").read_text("utf-8") == PROGRAM
