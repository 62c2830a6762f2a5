"""``sglrun doctor``, in a real process."""

import json
from pathlib import Path

from tests.cli.process import sglrun
from tests.stand_in import StandIn


def test_the_backend_and_what_it_can_are_named(tmp_path: Path) -> None:
    """The doctor names what is installed, the backend, its model, what it can."""
    run = sglrun("doctor", "-b", "mock", folder=tmp_path)
    facts = dict(line.split(maxsplit=1) for line in run.stdout.splitlines())

    assert run.returncode == 0
    assert facts["backend"] == "mock"
    assert "Python" in facts["sglrun"]
    assert {"local", "zstd", "model", "can"} <= facts.keys()


def test_a_server_is_asked(tmp_path: Path) -> None:
    """With ``--url`` the doctor says what answers there."""
    with StandIn() as server:
        run = sglrun("doctor", "--url", f"{server.url}/v1", folder=tmp_path)

    facts = dict(line.split(maxsplit=1) for line in run.stdout.splitlines())
    assert run.returncode == 0
    assert facts["backend"] == f"openai at {server.url}/v1"
    assert (facts["speaks"], facts["server"]) == ("openai", "sglang")
    assert (facts["model"], facts["template"]) == ("stand-in", "the server's own")
    assert "choice scores" in facts["can"]
    assert "logprob_start_len" in facts["cannot"]


def test_what_answered_stands_in_the_manifest(tmp_path: Path) -> None:
    """A run leaves behind what the doctor would have said of its backend."""
    (tmp_path / "p.py").write_text(
        "import sglrun as sgl\n@sgl.function\ndef p(s, q):\n"
        "    s += q\n    s += sgl.gen('a')\n"
    )
    arguments = ("batch", "p.py", "-", "-o", "out.jsonl")
    with StandIn() as server:
        server.model.kind = "vllm"
        run = sglrun(
            *(*arguments, "--url", server.url), folder=tmp_path, stdin='{"q": "a"}\n'
        )
    manifest = json.loads((tmp_path / "out.jsonl.run.json").read_text())

    assert run.returncode == 0, run.stderr
    assert manifest["about"]["answered"]["server"] == "vllm"
    assert "choice scores" in manifest["about"]["answered"]["can"]


def test_a_server_that_is_not_there_is_3(tmp_path: Path) -> None:
    """An address where nothing answers is told as the problem; exit 3."""
    run = sglrun("doctor", "--url", "http://127.0.0.1:9/v1", folder=tmp_path)

    assert run.returncode == 3
    assert "problem          http://127.0.0.1:9" in run.stdout
    assert run.stderr == ""
