"""Errors as words and exit codes."""

import json
from pathlib import Path

import pytest

from sglrun.cli.failures import exit_code, lines
from sglrun.errors import (
    AuthenticationError,
    ConfigError,
    ResultsLockedError,
    RunInterruptedError,
    RunStoppedError,
    SglrunError,
)
from tests.cli.process import sglrun


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (SglrunError("x"), 1),
        (ConfigError("x"), 2),
        (AuthenticationError("x"), 3),
        (RunStoppedError("x"), 3),
        (OSError(28, "No space left on device"), 3),
        (ResultsLockedError("x"), 4),
        (RunInterruptedError("x", signal_number=15), 143),
        (ZeroDivisionError("x"), 70),
    ],
)
def test_exit_codes(error: Exception, code: int) -> None:
    """Each kind of error ends a command with its own code."""
    assert exit_code(error) == code


def test_an_error_is_a_line_and_its_notes() -> None:
    """A known error is told without a traceback, its advice below it."""
    error = ConfigError("what happened")
    error.add_note("what to do")

    assert list(lines(error)) == ["sglrun: error: what happened", "  what to do"]


def test_a_bug_says_so() -> None:
    """An error that nobody raised on purpose is told as ours, with its traceback."""
    with pytest.raises(ZeroDivisionError) as caught:
        _ = 1 / 0
    told = list(lines(caught.value))

    assert told[0] == "Traceback (most recent call last):"
    assert told[-2].startswith("sglrun: error: this is a bug in sglrun: ZeroDivision")


def test_verbose_tells_where_a_known_error_came_from() -> None:
    """With ``-v`` the traceback of a known error is told, too."""
    with pytest.raises(ConfigError) as caught:
        raise ConfigError("x")
    told = list(lines(caught.value, verbose=True))

    assert told[0] == "Traceback (most recent call last):"
    assert told[-1] == "sglrun: error: x"


LEAVES = """\
import sys
import sglrun as sgl

@sgl.function
def p(s, q):
    {}
"""


@pytest.mark.parametrize("flag", ["--precache", "--no-precache"])
def test_a_row_that_raises_an_interrupt_is_a_record(tmp_path: Path, flag: str) -> None:
    """What only looks like Ctrl-C is the error of each row, and stops nothing."""
    (tmp_path / "p.py").write_text(LEAVES.format("raise KeyboardInterrupt"))
    run = sglrun(
        *("batch", "p.py", "-", "-b", "mock", flag),
        folder=tmp_path,
        stdin='{"q": "1"}\n{"q": "2"}\n',
    )
    errors = [json.loads(line)["error"] for line in run.stdout.splitlines()]

    assert run.returncode == 1
    assert [error["type"] for error in errors] == ["KeyboardInterrupt"] * 2
    assert errors[0]["where"] == "p.py:6"
    assert "2 failed" in run.stderr


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("sys.exit(7)", "SystemExit: 7"),
        ("sys.exit()", "SystemExit"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    ],
)
def test_a_program_that_leaves_has_failed(tmp_path: Path, line: str, told: str) -> None:
    """``run`` tells an exit of the author's code as any error of it, with exit 1."""
    (tmp_path / "p.py").write_text(LEAVES.format(line))
    run = sglrun("run", "p.py", "q=5", "-b", "mock", folder=tmp_path)

    assert run.returncode == 1
    assert run.stderr == f"sglrun: error: {told}\n  at p.py:6\n"
    assert json.loads(run.stdout) == {}
