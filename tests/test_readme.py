"""The README says what the program does now."""

import doctest
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from cogapp import Cog

from sglrun import errors

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
TEXT = README.read_text("utf-8")
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def sessions() -> list[tuple[str, str]]:
    """Return every ``$ sglrun ...`` line of the README with the output below it."""
    blocks = "".join(CONSOLE.findall(TEXT))
    return [
        (command, output)
        for part in blocks.split("$ sglrun")[1:]
        for command, _, output in [part.partition("\n")]
    ]


def test_generated_parts_are_current(monkeypatch: pytest.MonkeyPatch) -> None:
    """Running ``cog -r README.md`` would change nothing."""
    monkeypatch.chdir(ROOT)

    assert Cog().main(["cog", "--check", str(README)]) == 0


@pytest.mark.parametrize(("command", "expected"), sessions())
def test_console_sessions(command: str, expected: str) -> None:
    """A command shown in the README prints what the README shows."""
    run = subprocess.run(
        [sys.executable, "-m", "sglrun", *shlex.split(command)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    got = run.stdout + run.stderr

    assert doctest.OutputChecker().check_output(expected, got, doctest.ELLIPSIS), got


def test_ci_runs_the_second_command() -> None:
    """What CI reads out of the README is the command that ends in pytest."""
    block = TEXT.partition("<!-- test -->")[2]
    command = str(CONSOLE.findall(block)[0]).removeprefix("$ ").strip()

    assert command.splitlines() == [command]
    assert command.split(" && ")[-1].startswith(".venv/bin/pytest")


def test_exit_codes_are_told() -> None:
    """Every exit code of an error stands in the table."""
    table = TEXT.partition("## Exit codes")[2].partition("\n## ")[0]
    told = {int(number) for number in re.findall(r"\b\d+\b", table)}
    codes = {
        value.exit_code
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, errors.SglrunError)
    }

    assert codes <= told
