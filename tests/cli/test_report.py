"""``sglrun report``: one page about a run, whatever is there of it."""

import json
import os
import pty
import subprocess
from pathlib import Path

import pytest

from tests.cli.process import WAIT_S, command, environment, sglrun

PROGRAM = """\
import sglrun as sgl

@sgl.function
def ask(s, q):
    s += "Answer in one word, and be as brief about it as anyone can be. " * 2 + q
    s += sgl.gen("a", max_tokens=4)
    if q == "fail":
        raise ValueError(f"no answer to {q!r}")
"""
CONFIG = """\
profiles:
  paid: {backend: mock, prices: {prompt: 1000000, completion: 0}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a program, rows, and their results in ``out.jsonl``."""
    (tmp_path / "prog.py").write_text(PROGRAM, "utf-8")
    (tmp_path / "sglrun.yaml").write_text(CONFIG, "utf-8")
    rows = [{"q": "why?", "id": "first"}, {"q": "fail"}, {"q": "how?"}]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "in.jsonl").write_text(lines, "utf-8")
    run = batch(tmp_path, "-o", "out.jsonl")

    assert run.returncode == 1
    return tmp_path


def batch(folder: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    return sglrun("batch", "prog.py", "in.jsonl", "-b", "paid", *options, folder=folder)


def test_away_from_a_terminal_stdout_gets_the_page(folder: Path) -> None:
    """The page goes where results would, and nothing is said beside it."""
    run = sglrun("report", "out.jsonl", folder=folder)

    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith("<!DOCTYPE html>")
    for words in ("<h1>out.jsonl</h1>", "ValueError", "prog.py:8", "first", "Complete"):
        assert words in run.stdout


def test_the_run_is_told_by_its_manifest(folder: Path) -> None:
    """Command, cost by the prices of the run, prediction and time stand on the page."""
    page = sglrun("report", "out.jsonl", folder=folder).stdout
    manifest = json.loads((folder / "out.jsonl.run.json").read_text("utf-8"))
    last = manifest["about"]["last run"]
    spent = last["usage"]["prompt_tokens"] + last["prefix"]["usage"]["prompt_tokens"]

    assert last["predicted_cached_tokens"] == 3 * last["prefix"]["tokens"] > 0
    assert sum(last["times"]["ok"]) == 2
    assert "prog.py in.jsonl -b paid -o out.jsonl" in page
    assert f"{spent:,.4f}" in page
    assert f"{last['predicted_cached_tokens']:,} cached tokens" in page


def test_a_file_is_named(folder: Path) -> None:
    """``-o`` writes the page there, over what is there, and says so on stderr."""
    (folder / "page.html").write_text("old", "utf-8")
    run = sglrun("report", "out.jsonl", "-o", "page.html", folder=folder)

    assert (run.returncode, run.stdout) == (0, "")
    assert run.stderr == "sglrun: report: page.html\n"
    assert (folder / "page.html").read_text("utf-8").startswith("<!DOCTYPE html>")
    assert not (folder / "page.html.new").exists()


def at_terminal(folder: Path, *arguments: str) -> tuple[int, str]:
    """Run ``sglrun report`` with stdout on a terminal; return its code and stderr."""
    leader, follower = pty.openpty()
    try:
        run = subprocess.run(
            command("report", *arguments),
            stdin=subprocess.DEVNULL,
            stdout=follower,
            stderr=subprocess.PIPE,
            text=True,
            timeout=WAIT_S,
            check=False,
            cwd=folder,
            env=environment(folder),
        )
    finally:
        os.close(leader)
        os.close(follower)
    return run.returncode, run.stderr


def test_at_a_terminal_the_page_stands_beside_the_results(folder: Path) -> None:
    """A person gets ``OUT.html``, again and again, but never over another file."""
    for _ in range(2):
        assert at_terminal(folder, "out.jsonl") == (
            0,
            "sglrun: report: out.jsonl.html\n",
        )
    (folder / "out.jsonl.html").write_text("<html>mine</html>", "utf-8")
    code, said = at_terminal(folder, "out.jsonl")

    assert code == 2
    assert "no report" in said
    assert (folder / "out.jsonl.html").read_text("utf-8") == "<html>mine</html>"


@pytest.mark.parametrize("layout", ["record", "flat"])
def test_a_plain_capture_has_a_page(folder: Path, layout: str) -> None:
    """Results that went to stdout are told without a manifest, from stdin too."""
    captured = batch(folder, "--format", layout).stdout
    (folder / "plain.jsonl").write_text(captured, "utf-8")
    file = sglrun("report", "plain.jsonl", folder=folder)
    piped = sglrun("report", "-", folder=folder, stdin=captured)

    for run in (file, piped):
        assert run.returncode == 0
        assert "without a manifest" in run.stdout
        assert "no answer to &#x27;fail&#x27;" in run.stdout


def test_a_run_that_is_not_complete_has_a_page(folder: Path) -> None:
    """The journal is read while it is there, and the input tells what is left."""
    extra = "".join(json.dumps({"q": f"q{at}"}) + "\n" for at in range(5))
    with (folder / "in.jsonl").open("a", encoding="utf-8") as file:
        file.write("no row\n" * 3 + extra)
    stopped = batch(folder, "-o", "out.jsonl", "--max-errors", "1", "-j", "1")
    run = sglrun("report", "out.jsonl", folder=folder)

    assert stopped.returncode == 3
    assert (folder / "out.jsonl.part").exists()
    assert "The same command again goes on." in run.stdout
    assert "<dt>rows</dt><dd>11</dd>" in run.stdout
    assert "<dt>left</dt>" in run.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("none.jsonl",), "there are no results: neither 'none.jsonl' nor"),
        (("prog.py",), "'prog.py' holds no results of sglrun"),
        (("out.jsonl", "-o", "out.jsonl"), "is what the report is about"),
        (("out.jsonl", "-o", "out.jsonl.run.json"), "is what the report is about"),
        (("out.jsonl", "-o", "none/page.html"), "cannot write 'none/page.html'"),
    ],
)
def test_what_cannot_be_reported(
    folder: Path, arguments: tuple[str, ...], words: str
) -> None:
    """No page is made, the results stay as they are, and the reason is told."""
    before = (folder / "out.jsonl").read_bytes()
    run = sglrun("report", *arguments, folder=folder)

    assert (run.returncode, run.stdout) == (2, "")
    assert words in run.stderr
    assert (folder / "out.jsonl").read_bytes() == before
