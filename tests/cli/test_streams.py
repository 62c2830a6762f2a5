"""The streams of the process when they are closed, full or left."""

import json
import os
import pty
import subprocess
from pathlib import Path

import pytest

from sglrun.cli.streams import BROKEN_PIPE
from tests.cli.process import ROOT, WAIT_S, command, environment, sglrun

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


BATCH = (
    "import sglrun as s\n@s.function\ndef p(s, q):\n    print('said')\n    s['a'] = q\n"
)


def batch(script: str, folder: Path, **variables: str) -> tuple[int, str, str]:
    """Run *script*, in which ``$RUN`` is a run of three rows of ``in.jsonl``.

    Returns:
        The exit code, stdout and stderr.
    """
    (folder / "p.py").write_text(BATCH, "utf-8")
    rows = "".join(f'{{"q": "{number}"}}\n' for number in range(3))
    (folder / "in.jsonl").write_text(rows, "utf-8")
    words = " ".join(command("batch", "p.py", "in.jsonl", "-b", "mock"))
    run = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {script}"],  # noqa: S607 - a shell is the point
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
        cwd=folder,
        env=environment(folder, RUN=words, **variables),
    )
    assert "Traceback" not in run.stderr
    assert "Exception ignored" not in run.stderr
    return run.returncode, run.stdout, run.stderr


def results(text: str) -> list[int]:
    """Return the indices of the results in *text*, each a whole line."""
    assert text.endswith("\n")
    return [json.loads(line)["index"] for line in text.splitlines()]


@pytest.mark.parametrize("script", ["$RUN 2>&-", "$RUN 2>/dev/full", "$RUN <&- 2>&-"])
def test_a_run_does_without_stderr(tmp_path: Path, script: str) -> None:
    """Nobody who listens costs no result."""
    code, out, _ = batch(script, tmp_path)

    assert code == 0
    assert results(out) == [0, 1, 2]


@pytest.mark.parametrize("script", ["$RUN -o out >&-", "$RUN -o out >&- 2>&- <&-"])
def test_a_run_into_a_file_needs_no_stdout(tmp_path: Path, script: str) -> None:
    """With ``-o`` no stream at all need be open."""
    code, _, _ = batch(script, tmp_path)

    assert code == 0
    assert results((tmp_path / "out").read_text("utf-8")) == [0, 1, 2]
    assert (tmp_path / "p.py").read_text("utf-8") == BATCH


@pytest.mark.parametrize(
    ("name", "script"),
    [
        ("-", "$RUN -o {} >results 2>told"),
        ("/dev/stdout", "$RUN -o {} >results 2>told"),
        ("/dev/fd/1", "$RUN -o {} | cat >results"),
        ("/proc/self/fd/1", "$RUN -o {} >results 2>told"),
    ],
)
def test_results_into_stdout_by_name(tmp_path: Path, name: str, script: str) -> None:
    """Each name of stdout is stdout, whatever that is, and no file is made."""
    code, _, _ = batch(script.format(name), tmp_path)

    assert code == 0
    assert results((tmp_path / "results").read_text("utf-8")) == [0, 1, 2]
    assert not list(tmp_path.glob("*.run.json"))


def test_a_full_log_costs_no_result(tmp_path: Path) -> None:
    """A log that cannot be written is done without, and its lines are not shown."""
    code, out, err = batch("$RUN --log-file /dev/full", tmp_path)

    assert code == 0
    assert results(out) == [0, 1, 2]
    assert "Logging error" not in err
    assert "No space" not in err


@pytest.mark.parametrize(
    ("script", "code", "told"),
    [
        ("$RUN >/dev/full", 3, "stdout cannot be written: No space left on device"),
        ("ulimit -f 0; $RUN -o out", 2, "cannot write"),
        ("$RUN -o nowhere/out", 2, "No such file or directory"),
        ("$RUN -o .", 2, "is no regular file"),
        ("$RUN -o /dev/full", 2, "is no regular file"),
        ("$RUN --log-file nowhere/log", 2, "--log-file: 'nowhere/log' cannot be"),
    ],
)
def test_where_results_cannot_go_is_told(
    tmp_path: Path, script: str, code: int, told: str
) -> None:
    """What cannot be written is named, with the system's reason."""
    found, _, err = batch(script, tmp_path)

    assert found == code
    assert told in err


def test_a_disk_that_was_full_loses_nothing(tmp_path: Path) -> None:
    """What was finished stays finished, and the same command does the rest."""
    code, _, told = batch("ulimit -f 1; $RUN -o out", tmp_path)
    again, _, _ = batch("$RUN -o out", tmp_path)

    assert code == 3
    assert "File too large" in told
    assert again == 0
    assert results((tmp_path / "out").read_text("utf-8")) == [0, 1, 2]
    assert {path.name for path in tmp_path.glob("out*")} == {"out", "out.run.json"}


@pytest.mark.parametrize("columns", ["0", "1", "80"])
@pytest.mark.parametrize("terminal", ["dumb", "xterm", ""])
def test_any_terminal_will_do(tmp_path: Path, terminal: str, columns: str) -> None:
    """On a terminal that cannot move its cursor, or of no width, results are whole."""
    here, there = pty.openpty()
    try:
        code, out, _ = batch(
            f"$RUN --progress auto 2>/proc/{os.getpid()}/fd/{there}",
            tmp_path,
            TERM=terminal,
            COLUMNS=columns,
            NO_COLOR="1",
        )
    finally:
        os.close(there)
        told = os.read(here, 1 << 16)
        os.close(here)

    assert code == 0
    assert results(out) == [0, 1, 2]
    assert b"sglrun: 3 rows" in told
    assert b"\x1b[3" not in told  # no colour
    assert terminal != "dumb" or b"\x1b" not in told


def test_results_do_not_get_into_the_programs_file(tmp_path: Path) -> None:
    """With stdout closed, no file that is opened later is taken for it."""
    shell("$RUN >&-", tmp_path)

    assert (tmp_path / "p.py").read_text("utf-8") == PROGRAM


IDIOMS = """\
import atexit, io, os, sys
sys.stdout.reconfigure(encoding="utf-8")
sys.stderr.reconfigure(errors="replace")
sys.stdout.buffer.write(b"bytes\\n")
sys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8")
print("wrapped \u00e9")
sys.stdout.flush()
atexit.register(lambda: print("the end"))
atexit.register(lambda: os.system("echo a child at the end"))
import sglrun as s
@s.function
def p(s, q):
    sys.stdout.reconfigure(line_buffering=True)
    sys.stdout.buffer.write(b"in a row\\n")
    s["a"] = q
"""


@pytest.mark.parametrize(
    "words",
    [
        ("batch", "p.py", "-", "-b", "mock"),
        ("run", "p.py", "q=1", "-b", "mock"),
        ("check", "p.py", "-"),
        ("trace", "p.py", "--json", "-b", "mock"),
    ],
)
def test_what_programs_do_with_stdout_puts_nothing_on_it(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    """A program may set up its stdout, and speak at its end: all goes to stderr."""
    (tmp_path / "p.py").write_text(IDIOMS, "utf-8")
    run = sglrun(*words, folder=tmp_path, stdin='{"q": "1"}\n')
    told = run.stderr.splitlines()

    assert run.returncode == 0, run.stderr
    assert told[:2] == ["bytes", "wrapped \u00e9"]
    assert told[-2:] == ["a child at the end", "the end"]
    assert ("in a row" in told) == (words[0] in {"batch", "run"})
    assert [line for line in run.stdout.splitlines() if line[0] != "{"] == []


@pytest.mark.parametrize(
    "words", ["--help", "--version", "batch --help", "models --help", "doctor -b mock"]
)
def test_a_reader_that_leaves_ends_every_command_alike(
    tmp_path: Path, words: str
) -> None:
    """What a command says of itself ends as results do where nobody reads it."""
    run = " ".join(command(*words.split()))
    code, _, err = batch(f"{run} | true", tmp_path)

    assert (code, err) == (BROKEN_PIPE, "")
