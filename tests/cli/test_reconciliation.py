"""Reconciliation: a real run of which something is lost on its way says so."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.cli.process import WAIT_S, command, environment

# While the last of one thread's rows is run, the others are written.
PROGRAM = """
import pathlib, time
import sglrun as sgl

@sgl.function
def prog(s, q):
    s += "say " + str(q) + sgl.gen("a")
    place = pathlib.Path("{name}")
    if q == 5 and not pathlib.Path("done").exists():
        pathlib.Path("done").touch()
        while place.read_bytes().count(b"answer to") < {count}:
            time.sleep(0.01)
        lines = place.read_bytes().splitlines(keepends=True)
        place.write_bytes(b"".join({lines}))
"""
ROWS = "".join(f'{{"q": {number}}}\n' for number in range(6))
MADE = "answer to say"
Fault = Mapping[str, str]


def shell(
    folder: Path, script: str, fault: Fault, count: int = 5
) -> subprocess.CompletedProcess[str]:
    (folder / "prog.py").write_text(PROGRAM.format(count=count, **fault))
    (folder / "in.jsonl").write_text(ROWS)
    words = " ".join(command("batch", "prog.py", "in.jsonl", "-b", "mock", "-j", "1"))
    return subprocess.run(
        ["bash", "-c", script],  # noqa: S607 - a shell is the point
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
        cwd=folder,
        env=environment(folder, RUN=words),
    )


@pytest.mark.parametrize(
    "lines",
    [
        "lines[:2] + lines[3:]",
        "lines[:2] + [lines[2].replace(b'answer', b'ANSWER')] + lines[3:]",
        "lines[:2] + [lines[1]] + lines[3:]",
    ],
)
def test_a_record_that_the_journal_loses_is_named(tmp_path: Path, lines: str) -> None:
    """A result that is dropped, changed or doubled after it was written ends in 3.

    The results do not appear, and the same command again runs what is missing.
    """
    fault = {"name": "out.jsonl.part", "lines": lines}
    run = shell(tmp_path, "$RUN -o out.jsonl", fault)
    was_absent = not (tmp_path / "out.jsonl").exists()
    again = shell(tmp_path, "$RUN -o out.jsonl", fault)

    assert run.returncode == 3
    assert "row 2 has no result" in run.stderr
    assert was_absent
    assert again.returncode == 0
    assert (tmp_path / "out.jsonl").read_text().count(MADE) == 6


@pytest.mark.parametrize("to", ["> out.jsonl", ">> out.jsonl"])
def test_a_record_that_a_file_on_stdout_loses_is_named(tmp_path: Path, to: str) -> None:
    """What somebody takes out of the file that stdout is, is missed at the end."""
    (tmp_path / "out.jsonl").write_text("before\n")
    fault = {"name": "out.jsonl", "lines": "[b' ' * len(e) for e in lines]"}
    run = shell(tmp_path, f"$RUN {to}", fault)

    assert run.returncode == 3
    assert "row 0 was written to stdout and is not in that file" in run.stderr


@pytest.mark.parametrize("to", ["> out.jsonl", ">> out.jsonl", "| cat > out.jsonl"])
@pytest.mark.parametrize("layout", ["record", "flat"])
def test_a_whole_run_to_stdout_passes(tmp_path: Path, to: str, layout: str) -> None:
    """Results that follow others in a file, or go through a pipe, are all there."""
    (tmp_path / "out.jsonl").write_text("before\n")
    fault = {"name": "done", "lines": "lines"}
    run = shell(tmp_path, f"$RUN --format {layout} {to}", fault, count=0)

    assert (run.returncode, run.stderr.count("Traceback")) == (0, 0)
    assert (tmp_path / "out.jsonl").read_text().count(MADE) == 6
