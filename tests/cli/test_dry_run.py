"""``sglrun batch --dry-run``: what a run would ask, and nothing sent."""

import json
from pathlib import Path

from sglrun.batch.estimate import Estimate
from sglrun.cli.dry_run import facts
from tests.cli.process import sglrun
from tests.stand_in import StandIn

PROGRAM = """\
import sglrun as sgl

@sgl.function
def ask(s, q):
    s += "Answer in one word. " + q + sgl.gen("a", max_tokens=4)
"""
CONFIG = """\
profiles:
  paid: {backend: mock, prices: {prompt: 1000000, completion: 2000000}}
"""


def test_an_estimate_is_written_and_nothing_sent(
    tmp_path: Path, stand_in: StandIn
) -> None:
    """Away from a terminal stdout gets one object, and the server no request."""
    (tmp_path / "prog.py").write_text(PROGRAM, "utf-8")
    (tmp_path / "in.jsonl").write_text('{"q": "Why?"}\n{"q": "How?"}\n', "utf-8")
    run = sglrun(
        "batch",
        "prog.py",
        "in.jsonl",
        "--dry-run",
        "-o",
        "out.jsonl",
        "--limit",
        "1",
        "--url",
        stand_in.url,
        folder=tmp_path,
    )
    told = json.loads(run.stdout)

    assert run.returncode == 0
    assert (told["rows"], told["requests"], told["completion_tokens"]) == (1, 1, 4)
    assert not (tmp_path / "out.jsonl").exists()
    assert not any("generate" in request.path for request in stand_in.log)


def test_prices_give_a_cost(tmp_path: Path) -> None:
    """A profile's prices make the bound on tokens a bound on money."""
    (tmp_path / "prog.py").write_text(PROGRAM, "utf-8")
    (tmp_path / "in.jsonl").write_text('{"q": "Why?"}\n', "utf-8")
    (tmp_path / "sglrun.yaml").write_text(CONFIG, "utf-8")
    run = sglrun(
        "batch", "prog.py", "in.jsonl", "--dry-run", "-b", "paid", folder=tmp_path
    )
    told = json.loads(run.stdout)

    assert told["most_cost"] == told["prompt_tokens"] + 2 * 4
    assert told["counted_by"] == "counted by mock, mock"


def test_people_get_lines() -> None:
    """A person reads bounds, what a cache saves, and what is not certain."""
    found = Estimate(
        rows=2000,
        bad_rows=1,
        traced_rows=999,
        requests=2000,
        prompt_tokens=1000,
        sent_tokens=40,
        prefix_tokens=400,
        shared_tokens=500,
        completion_tokens=80,
        decided_by="prog.py:7",
    )
    lines = dict(facts(found, "an estimate", 1.5))

    assert lines["rows"] == "2,000 rows, 1 of them bad (from the first 999 rows)"
    assert lines["requests"] == "2,000 and one for the prefix"
    assert lines["prompt"] == "at most 1,000 tokens (an estimate)"
    assert lines["prefix"].startswith("400 tokens of these, 40%")
    assert lines["cost"] == "at most 1.5000"
    assert lines["note"].startswith("prog.py:7 decides")
