"""``sglrun trace``: the shared prefix, what ends it, and the graph."""

import json
from pathlib import Path

import pytest

from tests.cli.process import sglrun

PROGRAM = """\
import sglrun as sgl

@sgl.function
def triage(s, ticket, lang="en"):
    print("the author prints")
    s += sgl.system("You sort tickets.")
    s += sgl.user(f"Language: {lang}. Ticket: {ticket} Which team?")
    s += sgl.assistant(sgl.select("team", ["billing", "delivery"]))
    if s["team"] == "billing":
        branches = s.fork(2)
        branches += sgl.user("Draft:") + sgl.assistant(sgl.gen("draft", max_tokens=8))
        branches.join()
"""
ROWS = [{"ticket": "Order late"}, {"ticket": "Order lost"}, {"ticket": "Order gone"}]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a program and rows in it."""
    (tmp_path / "prog.py").write_text(PROGRAM, "utf-8")
    lines = "".join(json.dumps(row) + "\n" for row in ROWS)
    (tmp_path / "in.jsonl").write_text(f"no JSON\n{lines}", "utf-8")
    return tmp_path


def test_json_tells_the_prefix_and_its_end(folder: Path) -> None:
    """``--json`` gives one object: the prefix, what ends it, and the graph."""
    run = sglrun("trace", "prog.py", "--json", "-b", "mock", folder=folder)
    told = json.loads(run.stdout)

    assert run.returncode == 0
    assert run.stderr == ""
    assert told["prefix"] == {
        "text": "SYSTEM:You sort tickets.\nUSER:Language: ",
        "characters": 40,
        "tokens": 4,
    }
    assert told["ends"] == {
        "where": "prog.py:7",
        "reason": "argument 'lang'",
        "advice": "no change is worth it: only 22 constant characters come after "
        "{lang} and {ticket}",
    }
    assert told["counted_by"] == "counted by mock, mock"


def test_the_graph_names_its_steps(folder: Path) -> None:
    """The graph holds the choices, the branch on a generated value, and the fork."""
    run = sglrun("trace", "prog.py", "--json", "-b", "mock", folder=folder)
    graph = json.loads(run.stdout)["graph"]
    kinds = [node["kind"] for node in graph["nodes"]]
    branch = graph["nodes"][kinds.index("branch")]

    assert kinds.count("generate") == 2
    assert branch["name"] == "a comparison of variable 'team'"
    assert branch["where"] == "prog.py:9"
    assert {"from": 7, "to": 8, "kind": "then"} in graph["edges"]


def test_rows_show_what_they_really_share(folder: Path) -> None:
    """With INPUTS first prompts of the first rows are compared; others not."""
    run = sglrun("trace", "prog.py", "in.jsonl", "--rows", "2", "--json", folder=folder)
    told = json.loads(run.stdout)

    assert told["prefix"]["text"].endswith("Language: en. Ticket: ")
    assert told["rows"]["rows"] == 2
    assert told["rows"]["text"].endswith("Ticket: Order l")


def test_a_person_reads_a_tree(folder: Path) -> None:
    """Without options the report is for people, in lines without colours."""
    run = sglrun("trace", "prog.py", "in.jsonl", "-b", "mock", folder=folder)

    assert run.stdout.startswith("prefix  52 characters, 6 tokens (counted by mock")
    assert "ends    prog.py:7: argument 'ticket'\n" in run.stdout
    assert "├── fork into 2  prog.py:10\n" in run.stdout
    assert "unknown: a comparison of variable 'team', taken as yes" in run.stdout
    assert "the first 3 rows share" in run.stdout
    assert "\x1b" not in run.stdout


@pytest.mark.parametrize(
    ("option", "begin"),
    [("--dot", "digraph program {\n"), ("--mermaid", "flowchart TD\n")],
)
def test_diagrams(folder: Path, option: str, begin: str) -> None:
    """``--dot`` and ``--mermaid`` write the graph for other tools, and nothing else."""
    run = sglrun("trace", "prog.py", option, "-b", "mock", folder=folder)

    assert run.stdout.startswith(begin)
    assert "Ticket: {ticket}" in run.stdout


def test_one_form_is_written(folder: Path) -> None:
    """Two forms at once are refused."""
    run = sglrun("trace", "prog.py", "--dot", "--json", folder=folder)

    assert run.returncode == 2
    assert "--mermaid" in run.stderr


def test_a_program_that_raises_is_traced_as_far_as_it_goes(folder: Path) -> None:
    """Whatever the author's code raises is part of the answer."""
    (folder / "exits.py").write_text(
        "import sys\nimport sglrun as sgl\n\n@sgl.function\ndef p(s, q):\n"
        "    s += 'Hello '\n    sys.exit(3)\n",
        "utf-8",
    )
    run = sglrun("trace", "exits.py", "--json", "-b", "mock", folder=folder)
    told = json.loads(run.stdout)

    assert run.returncode == 0
    assert told["prefix"]["text"] == "Hello "
    assert told["ends"]["where"] == "exits.py:7"
    assert told["ends"]["reason"] == "SystemExit while tracing: 3"


def test_missing_rows_are_an_error(folder: Path) -> None:
    """INPUTS that cannot be read end the command before anything is shown."""
    run = sglrun("trace", "prog.py", "none.jsonl", "-b", "mock", folder=folder)

    assert (run.returncode, run.stdout) == (2, "")
