"""``sglrun run``: one row, in a real process."""

import json
import os
import pty
import subprocess
from pathlib import Path

import pytest

from tests.cli.process import WAIT_S, command, environment, sglrun
from tests.stand_in import StandIn

PROGRAM = """\
import sglrun as sgl

@sgl.function
def triage(s, ticket, lang="en"):
    print("the author prints")
    s += f"Ticket ({lang}): {ticket}\\nTeam: "
    s += sgl.select("team", ["billing", "delivery"])
    s += "\\nReply:" + sgl.gen("reply", max_tokens=8)

"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a program in it."""
    (tmp_path / "prog.py").write_text(PROGRAM, "utf-8")
    return tmp_path


def test_stdout_gets_the_variables(folder: Path) -> None:
    """Away from a terminal stdout is one JSON object, and nothing else."""
    run = sglrun("run", "prog.py", "ticket=late", "-b", "mock", folder=folder)

    assert run.returncode == 0
    assert list(json.loads(run.stdout)) == ["team", "reply"]
    assert run.stderr == "the author prints\n"


def test_json_arguments_keep_their_types(folder: Path) -> None:
    """``--json`` gives arguments as values; a pair beside it wins."""
    (folder / "p.py").write_text(
        "import sglrun as sgl\n@sgl.function\ndef p(s, a, b):\n    return [a, b]\n",
        "utf-8",
    )
    run = sglrun(
        "run",
        "p.py",
        "b=x",
        "--json",
        '{"a": [1], "b": 2}',
        "-b",
        "mock",
        folder=folder,
    )

    assert json.loads(run.stdout) == {"return": [[1], "x"]}


def test_a_terminal_sees_the_text_with_the_models_words_in_green(folder: Path) -> None:
    """On a terminal the text is streamed; what the model wrote is coloured."""
    leader, follower = pty.openpty()
    with subprocess.Popen(
        command("run", "prog.py", "ticket=late", "-b", "mock"),
        stdin=subprocess.DEVNULL,
        stdout=follower,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        env=environment(folder, TERM="xterm"),
    ) as process:
        process.wait(WAIT_S)
        os.close(follower)
        shown = os.read(leader, 10_000).decode().replace("\r\n", "\n")
        os.close(leader)

    assert shown.startswith("Ticket (en): late\nTeam: \x1b[32m")
    assert "\x1b[0m\nReply:\x1b[32m" in shown
    assert shown.endswith("\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["prog.py"], "missing argument 'ticket' (the program 'triage' takes"),
        (["prog.py", "late"], "'late' is not an argument (write it as name=value)"),
        (["prog.py", "ticket=a", "x=b"], "unknown argument 'x'"),
        (["prog.py", "--json", "{"], "--json: '{' is not JSON"),
        (["prog.py", "--json", "[1]"], "--json: '[1]' is not a JSON object"),
        (["gone.py", "ticket=a"], "the program file 'gone.py' does not exist"),
        (["prog.py", "ticket=a", "--top-p", "2"], "--top-p: '2' is not a number"),
    ],
)
def test_what_cannot_start_is_2(
    folder: Path, arguments: list[str], message: str
) -> None:
    """A mistake of the user's is told in a line and exits with 2."""
    run = sglrun("run", *arguments, "-b", "mock", folder=folder)

    assert run.returncode == 2
    assert run.stdout == ""
    assert f"sglrun: error: {message}" in run.stderr
    assert "Traceback" not in run.stderr


def test_a_program_that_fails_is_1(folder: Path) -> None:
    """What the author's code raises is told with its place; exit 1."""
    (folder / "bad.py").write_text(
        "import sglrun as sgl\n@sgl.function\ndef p(s):\n    raise ValueError('x')\n",
        "utf-8",
    )
    run = sglrun("run", "bad.py", "-b", "mock", folder=folder)

    assert run.returncode == 1
    assert run.stderr == "sglrun: error: ValueError: x\n  at bad.py:4\n"


def test_a_wrong_key_is_told_and_not_shown(folder: Path) -> None:
    """A key that the server refuses is an error that does not name it."""
    with StandIn(api_key="right") as server:
        run = sglrun(
            "run",
            "prog.py",
            "ticket=a",
            "--url",
            f"{server.url}/v1",
            folder=folder,
            OPENAI_API_KEY="sk-secret",
        )

    assert run.returncode == 3
    assert "sk-secret" not in run.stderr
    assert "Traceback" not in run.stderr
