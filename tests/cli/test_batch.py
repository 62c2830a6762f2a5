"""``sglrun batch``, in a real process."""

import gzip
import json
import os
import pty
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest

from tests.cli.process import WAIT_S, command, environment, sglrun
from tests.stand_in import StandIn, status

PROGRAM = """\
import sglrun as sgl

@sgl.function
def reply(s, q):
    print("the author prints", q)
    if q == "bad":
        raise ValueError("boom")
    s += "You answer questions briefly and politely, as a good clerk would do it.\\n"
    s += "Question: " + q + "\\nAnswer:"
    s += sgl.gen("a", max_tokens=8)
"""
LOUD = """\
import os, sys
import sglrun as sgl

@sgl.function
def loud(s, q):
    os.write(1, b"to the descriptor\\n")
    os.system("echo from a process")
    sys.__stdout__.write("to the first stdout\\n")
    s["a"] = q
"""
TWO = """\
import sglrun as sgl

@sgl.function
def one(s, q):
    s["a"] = q

@sgl.function
def two(s, q):
    s["a"] = q
"""


MADE = """\
import sglrun as sgl

def make(lang):
    @sgl.function
    def reply(s, q):
        s += lang + q + sgl.gen("a", max_tokens=8)
    return reply
"""
HINTED = """\
import sglrun as sgl

@sgl.function
def hinted(s, q, hint=None):
    s += "You answer questions briefly and politely, as a good clerk would do it.\\n"
    if hint:
        s += "Hint: " + hint + "\\n"
    s += "Question: " + q + "\\nAnswer:"
    s += sgl.gen("a", max_tokens=8)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with programs and rows in it."""
    (tmp_path / "prog.py").write_text(PROGRAM, "utf-8")
    (tmp_path / "two.py").write_text(TWO, "utf-8")
    (tmp_path / "none.py").write_text("x = 1\n", "utf-8")
    (tmp_path / "broken.py").write_text("import nosuchmodule\n", "utf-8")
    (tmp_path / "in.jsonl").write_text(lines("a", "b", "c"), "utf-8")
    return tmp_path


def lines(*questions: str) -> str:
    """Return rows that ask *questions*."""
    return "".join(json.dumps({"q": question}) + "\n" for question in questions)


def records(stdout: str) -> list[dict[str, Any]]:
    """Return the results; every line must be one."""
    return [json.loads(line) for line in stdout.splitlines()]


def test_one_line_out_for_each_line_in(folder: Path) -> None:
    """Results go to stdout in the order of the input, everything else to stderr."""
    run = sglrun("batch", "prog.py", "in.jsonl", "-b", "mock", folder=folder)
    results = records(run.stdout)

    assert run.returncode == 0
    assert [result["index"] for result in results] == [0, 1, 2]
    assert all(result["status"] == "ok" for result in results)
    assert all(result["output"]["a"] for result in results)
    assert "the author prints a" in run.stderr
    assert "sglrun: 3 rows in" in run.stderr


def test_a_print_is_seen_once_a_row(folder: Path) -> None:
    """What a program prints while its prefix is sought is dropped, and ends nothing."""
    run = sglrun("batch", "prog.py", "in.jsonl", "-b", "mock", folder=folder)

    assert run.stderr.count("the author prints") == 3
    assert "a comparison of argument 'q' (prog.py:6)" in run.stderr


def test_results_alone_reach_stdout(folder: Path) -> None:
    """Neither a library, nor another process, nor the first stdout mixes into them."""
    (folder / "loud.py").write_text(LOUD, "utf-8")
    run = sglrun("batch", "loud.py", "in.jsonl", "-b", "mock", folder=folder)

    assert [result["status"] for result in records(run.stdout)] == ["ok"] * 3
    assert run.stderr.count("to the descriptor") == 4
    assert run.stderr.count("from a process") == 4
    assert run.stderr.count("to the first stdout") == 4


def test_programs_of_one_function_are_not_mixed(folder: Path) -> None:
    """Results of ``make("fr")`` are not completed, nor taken, by ``make("de")``."""
    (folder / "made.py").write_text(MADE, "utf-8")
    rest = ("in.jsonl", "-b", "mock", "-o", "out.jsonl")
    first = sglrun("batch", 'made.py:make("fr")', *rest, "--limit", "1", folder=folder)
    other = sglrun("batch", 'made.py:make("de")', *rest, folder=folder)
    again = sglrun("batch", "made.py:make('fr')", *rest, folder=folder)

    assert (first.returncode, other.returncode, again.returncode) == (0, 2, 0)
    assert "program: reply as make('fr') → reply as make('de')" in other.stderr
    assert "1 done before" in again.stderr


def test_a_resumed_run_shares_what_one_in_one_go_does(folder: Path) -> None:
    """Rows that give other arguments than the first do not change the prefix."""
    (folder / "hinted.py").write_text(HINTED, "utf-8")
    rows = [{"q": "a"}, {"q": "b", "hint": "short"}, {"q": "c"}]
    (folder / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = ("batch", "hinted.py", "in.jsonl", "-b", "mock", "-o")
    sglrun(*run, "whole.jsonl", folder=folder)
    sglrun(*run, "resumed.jsonl", "--limit", "1", folder=folder)
    sglrun(*run, "resumed.jsonl", folder=folder)
    whole, resumed = (
        json.loads((folder / name).read_bytes())["about"]["last run"]
        for name in ("whole.jsonl.run.json", "resumed.jsonl.run.json")
    )

    assert (whole["resumed"], resumed["resumed"]) == (0, 1)
    assert whole["prefix"] == resumed["prefix"]
    assert whole["prefix"]["tokens"] > 0


def test_results_are_not_read_as_rows(folder: Path) -> None:
    """Results that are added to the input would be read again, without end."""
    rows = folder / "in.jsonl"
    with rows.open("a") as stdout:
        run = subprocess.run(
            command("batch", "prog.py", "in.jsonl", "-b", "mock", "-q"),
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            timeout=WAIT_S,
            check=False,
            cwd=folder,
            env=environment(folder),
        )

    assert run.returncode == 2
    assert "stdout is the input 'in.jsonl'" in run.stderr
    assert rows.read_text("utf-8") == lines("a", "b", "c")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ("- <&-", 2, "stdin is closed, so there are no rows to read"),
        ("in.jsonl <&-", 0, "3 ok"),
        ("in.jsonl >&-", 2, "stdout is closed"),
        ("in.jsonl -o out.jsonl >&- <&-", 0, "3 ok"),
    ],
)
def test_a_closed_stream_is_missed_where_it_is_needed(
    folder: Path, arguments: str, code: int, message: str
) -> None:
    """A closed stdin is not an empty one; what is not used may be closed."""
    words = " ".join(command("batch", "prog.py", "-b", "mock"))
    run = subprocess.run(
        ["bash", "-c", f"{words} {arguments}"],  # noqa: S607 - a shell is the point
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
        cwd=folder,
        env=environment(folder),
    )

    assert run.returncode == code
    assert message in run.stderr


def test_stdin_is_an_input(folder: Path) -> None:
    """``-`` reads rows from stdin."""
    run = sglrun(
        "batch", "prog.py", "-", "-b", "mock", folder=folder, stdin=lines("x", "y")
    )

    assert (run.returncode, len(records(run.stdout))) == (0, 2)


def test_gzip_is_an_input(folder: Path) -> None:
    """A gzipped input is read as what it holds."""
    (folder / "in.jsonl.gz").write_bytes(gzip.compress(lines("x", "y").encode()))
    run = sglrun("batch", "prog.py", "in.jsonl.gz", "-b", "mock", folder=folder)

    assert (run.returncode, len(records(run.stdout))) == (0, 2)


def test_no_rows_are_no_failure(folder: Path) -> None:
    """An empty input gives an empty output and exit 0."""
    run = sglrun("batch", "prog.py", "-", "-b", "mock", folder=folder)

    assert (run.returncode, run.stdout) == (0, "")


def test_limit(folder: Path) -> None:
    """``--limit`` runs the first rows only."""
    run = sglrun(
        "batch", "prog.py", "in.jsonl", "-b", "mock", "--limit", "2", folder=folder
    )

    assert [result["index"] for result in records(run.stdout)] == [0, 1]


def test_flat_adds_columns(folder: Path) -> None:
    """``--format flat`` gives the row back with the variables as columns."""
    run = sglrun(
        "batch", "prog.py", "in.jsonl", "-b", "mock", "--format", "flat", folder=folder
    )
    first = records(run.stdout)[0]

    assert list(first) == ["q", "a", "_sglrun"]
    assert first["q"] == "a"


def test_include_adds_what_is_asked_for(folder: Path) -> None:
    """``--include`` adds arguments, text and messages to each result."""
    run = sglrun(
        *("batch", "prog.py", "in.jsonl", "-b", "mock"),
        *("--include", "arguments,text"),
        folder=folder,
    )
    first = records(run.stdout)[0]

    assert first["arguments"] == {"q": "a"}
    assert "Question: a" in first["text"]


def test_a_row_that_fails_is_a_record_and_exit_1(folder: Path) -> None:
    """A failed row is an error record with the author's line; the others are ok."""
    run = sglrun(
        "batch", "prog.py", "-", "-b", "mock", folder=folder, stdin=lines("a", "bad")
    )
    good, bad = records(run.stdout)

    assert run.returncode == 1
    assert good["status"] == "ok"
    assert bad["error"]["type"] == "ValueError"
    assert bad["error"]["where"] == "prog.py:7"
    assert "1 ok, 1 failed" in run.stderr
    assert "1 x ValueError (prog.py:7): boom" in run.stderr
    assert "Traceback" not in run.stderr


def test_bad_rows_are_records(folder: Path) -> None:
    """No JSON, no object, a missing argument: each is a record; extra fields stay."""
    rows = '{"q": \n[1]\n{"x": 1}\n{"q": "fine", "x": 1.10, "id": "t1"}\n'
    run = sglrun("batch", "prog.py", "-", "-b", "mock", folder=folder, stdin=rows)
    no_json, no_object, missing, extra = records(run.stdout)

    assert run.returncode == 1
    assert "<stdin>:1" in no_json["error"]["message"]
    assert "<stdin>:2" in no_object["error"]["message"]
    assert "missing argument 'q'" in missing["error"]["message"]
    assert (extra["status"], extra["id"], extra["row"]) == ("ok", "t1", {"x": 1.1})
    assert '"x": 1.10' in run.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gone.py", "in.jsonl"], "the program file 'gone.py' does not exist"),
        (["none.py", "in.jsonl"], "none.py has no program"),
        (["two.py", "in.jsonl"], "two.py has 2 programs (one, two); say which"),
        (["two.py:three", "in.jsonl"], "'three' does not exist in two.py"),
        (["broken.py", "in.jsonl"], "broken.py cannot be loaded: ModuleNotFoundError"),
        (["prog.py", "gone.jsonl"], "the input 'gone.jsonl' cannot be read"),
        (["prog.py", "."], "the input '.' cannot be read"),
        (["prog.py", "in.jsonl", "-b", "opnai"], "--backend: unknown backend 'opnai'"),
        (["prog.py", "in.jsonl", "-j", "0"], "--num-threads: '0' is not a whole"),
        (["prog.py", "in.jsonl", "--format", "csv"], "--format: 'csv' is not one of"),
        (["prog.py"], "missing argument 'INPUTS'"),
        (["prog.py", "in.jsonl", "--tempo", "1"], "no such option: --tempo"),
    ],
)
def test_what_cannot_start_is_2(
    folder: Path, arguments: list[str], message: str
) -> None:
    """A mistake of the user's is one clear line, no result, and exit 2."""
    run = sglrun("batch", *arguments, folder=folder, SGLRUN_BACKEND="mock")

    assert run.returncode == 2
    assert run.stdout == ""
    assert f"sglrun: error: {message}" in run.stderr
    assert "Traceback" not in run.stderr


def test_a_server_that_is_not_there_is_3(folder: Path) -> None:
    """An address where nothing listens ends the run with its name."""
    run = sglrun(
        *("batch", "prog.py", "in.jsonl", "--url", "http://127.0.0.1:9/v1"),
        folder=folder,
    )

    assert run.returncode == 3
    assert run.stdout == ""
    assert "http://127.0.0.1:9" in run.stderr
    assert "Traceback" not in run.stderr


def test_a_wrong_key_is_3_and_is_shown_nowhere(folder: Path) -> None:
    """A key that the server refuses ends the run, and appears in no output."""
    with StandIn(api_key="right") as server:
        run = sglrun(
            *("batch", "prog.py", "in.jsonl", "-b", "openai", "--url", server.url),
            *("--model", "m", "--log-file", "log.txt", "-v"),
            folder=folder,
            OPENAI_API_KEY="sk-secret-key",
        )
    written = "".join(
        path.read_text("utf-8") for path in folder.iterdir() if path.is_file()
    )

    assert run.returncode == 3
    assert "401" in run.stderr
    assert "sk-secret-key" not in run.stdout + run.stderr + written


def test_a_request_that_is_refused_is_a_record(folder: Path) -> None:
    """A 400 on one row fails that row alone, with the server's words."""
    with StandIn() as server:
        server.fail(
            status(400, {"error": {"message": "prompt too long"}}),
            path="/v1/completions",
        )
        run = sglrun(
            *("batch", "prog.py", "in.jsonl", "-b", "openai", "--url", server.url),
            *("--no-precache", "-j", "1"),
            folder=folder,
        )
    results = records(run.stdout)
    failed = [result["error"] for result in results if result["status"] == "error"]

    assert run.returncode == 1
    assert len(results) == 3
    assert len(failed) == 1
    assert failed[0]["http_status"] == 400
    assert "prompt too long" in failed[0]["message"]


def test_an_output_that_exists_is_not_touched(folder: Path) -> None:
    """``-o`` over a file of another making is exit 2, and the file stays."""
    (folder / "out.jsonl").write_text("precious\n", "utf-8")
    run = sglrun(
        *("batch", "prog.py", "in.jsonl", "-b", "mock", "-o", "out.jsonl"),
        folder=folder,
    )

    assert run.returncode == 2
    assert (folder / "out.jsonl").read_text("utf-8") == "precious\n"
    assert "out.jsonl" in run.stderr
    assert "--overwrite" in run.stderr


def test_output_goes_to_a_file(folder: Path) -> None:
    """With ``-o`` stdout stays empty and the file holds the results."""
    run = sglrun(
        *("batch", "prog.py", "in.jsonl", "-b", "mock", "-o", "out.jsonl"),
        folder=folder,
    )
    results = records((folder / "out.jsonl").read_text("utf-8"))

    assert (run.returncode, run.stdout) == (0, "")
    assert [result["index"] for result in results] == [0, 1, 2]
    assert "output   out.jsonl" in run.stderr


def test_quiet_says_nothing_of_a_run_that_works(folder: Path) -> None:
    """``-q`` leaves stderr to errors and to the author."""
    (folder / "p.py").write_text(TWO, "utf-8")
    run = sglrun("batch", "p.py:one", "in.jsonl", "-b", "mock", "-q", folder=folder)

    assert (run.returncode, run.stderr) == (0, "")


def test_progress_as_json_ends_with_the_summary(folder: Path) -> None:
    """``--progress json`` makes stderr lines for machines, the summary last."""
    run = sglrun(
        *("batch", "two.py:one", "in.jsonl", "-b", "mock", "--progress", "json"),
        folder=folder,
    )
    last = json.loads(run.stderr.splitlines()[-1])

    assert (last["event"], last["ok"], last["exit_code"]) == ("summary", 3, 0)


def test_results_and_progress_share_a_terminal(folder: Path) -> None:
    """On one terminal results are whole lines, and the summary comes after them."""
    leader, follower = pty.openpty()
    with subprocess.Popen(
        command("batch", "two.py:one", "in.jsonl", "-b", "mock"),
        stdin=subprocess.DEVNULL,
        stdout=follower,
        stderr=follower,
        cwd=folder,
        env=environment(folder, TERM="xterm", NO_COLOR="1"),
    ) as process:
        os.close(follower)
        with os.fdopen(leader, "rb", buffering=0) as terminal:
            shown = b"".join(until_closed(terminal)).decode().replace("\r", "\n")
    told = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown).splitlines()
    found = [json.loads(line)["index"] for line in told if line.startswith("{")]

    assert process.returncode == 0
    assert found == [0, 1, 2]
    assert [line for line in told if line][-1].startswith("sglrun: 3 rows in")


def until_closed(terminal: IO[bytes]) -> Iterator[bytes]:
    """Read until the last process on the other side is gone."""
    while True:
        try:
            yield terminal.read(65536)
        except OSError:
            return


def test_settings_come_from_the_folder(folder: Path) -> None:
    """``sglrun.yaml`` gives defaults; a wrong key in it is named."""
    (folder / "sglrun.yaml").write_text("batch: {backend: mock, limit: 1}", "utf-8")
    good = sglrun("batch", "prog.py", "in.jsonl", folder=folder)
    (folder / "sglrun.yaml").write_text("batch: {backnd: mock}", "utf-8")
    bad = sglrun("batch", "prog.py", "in.jsonl", folder=folder)

    assert (good.returncode, len(records(good.stdout))) == (0, 1)
    assert bad.returncode == 2
    assert "sglrun.yaml:batch.backnd: no such key" in bad.stderr


def test_a_misspelt_variable_is_a_warning(folder: Path) -> None:
    """A variable that no setting has is told, and the run goes on."""
    run = sglrun(
        *("batch", "two.py:one", "in.jsonl", "-b", "mock"),
        folder=folder,
        SGLRUN_TEMPRATURE="0",
    )

    assert run.returncode == 0
    assert "sglrun: warning: SGLRUN_TEMPRATURE in the environment" in run.stderr


def test_a_warning_is_said_once(folder: Path) -> None:
    """That no chat template is known is told once, on stderr and in the log."""
    with StandIn() as server:
        run = sglrun(
            *("batch", "prog.py", "in.jsonl", "--url", server.url, "-v"),
            *("--log-file", "log.txt"),
            folder=folder,
        )
    log = (folder / "log.txt").read_text("utf-8")

    assert run.returncode == 0
    assert run.stderr.count("no chat template is known for the model") == 1
    assert "sglrun: warning: no chat template" in run.stderr
    assert log.count("no chat template is known for the model") == 1


def test_the_log_holds_what_failed(folder: Path) -> None:
    """``--log-file`` gets a line for each row that failed."""
    sglrun(
        *("batch", "prog.py", "-", "-b", "mock", "--log-file", "log.txt"),
        folder=folder,
        stdin=lines("bad"),
    )

    assert "row 0: ValueError: boom" in (folder / "log.txt").read_text("utf-8")
