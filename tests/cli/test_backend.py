"""The backend of a command: options, then the code's own default, then the usual."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from sglrun.cli import run_command
from sglrun.cli.streams import Streams
from sglrun.display.stderr import QuietStream
from sglrun.interpreter.global_config import global_config
from sglrun.interpreter.sglang.finder import withdraw_sglang
from tests.stand_in import StandIn

Run = Callable[..., object]

# What is said to the user is told on stderr, and compared there.
pytestmark = pytest.mark.filterwarnings("default")

PROGRAM = """
    import sglang as sgl

    @sgl.function
    def ask(s, question):
        s += sgl.user(question)
        s += sgl.assistant(sgl.gen("answer"))

    sgl.set_default_backend(BACKEND)
    """


@pytest.fixture
def server(stand_in: StandIn) -> StandIn:
    """A stand-in server whose model has a known chat template."""
    stand_in.model.model_path = "Qwen/Qwen2.5-7B-Instruct"
    return stand_in


@pytest.fixture
def run(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Run]:
    """Run a program whose file sets the given default backend; return its answer."""
    monkeypatch.chdir(tmp_path)

    def ran(backend: str, *options: str) -> object:
        text = dedent(PROGRAM).replace("BACKEND", backend)
        (tmp_path / "prog.py").write_text(text, "utf-8")
        streams = Streams(
            err=QuietStream(sys.stderr), out_is_open=True, out_is_terminal=False
        )
        code = run_command(["run", "prog.py", "question=Why?", *options], streams)
        out = capfd.readouterr().out
        assert code == 0, out
        return json.loads(out)["answer"]

    yield ran
    withdraw_sglang()
    global_config.default_backend = global_config.offered_backend = None


def test_the_default_that_a_file_sets_is_used(run: Run, server: StandIn) -> None:
    """Where the user says nothing of a backend, the code's own word counts."""
    assert run(f"sgl.RuntimeEndpoint({server.url!r})") == " OUT"


def test_the_options_are_over_the_default_of_a_file(run: Run, server: StandIn) -> None:
    """A backend that the user names is used, and the other is never asked."""
    answer = run(f"sgl.RuntimeEndpoint({server.url!r})", "--backend", "mock")

    assert answer == "answer to Why?"
    assert server.log == []


def test_the_environment_is_the_users_word_too(
    run: Run, server: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backend in the environment is over the default of a file."""
    monkeypatch.setenv("SGLRUN_BACKEND", "mock")

    assert run(f"sgl.RuntimeEndpoint({server.url!r})") == "answer to Why?"


def test_a_runtime_in_a_file_starts_nothing_beside_the_options(run: Run) -> None:
    """``sgl.Runtime(...)`` in a file is the backend of the options."""
    answer = run("sgl.Runtime(model_path='a/b')", "--backend", "mock")

    assert answer == "answer to Why?"


def test_what_only_the_engine_joins_is_refused_by_name(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """``--parallel-encoding`` needs a backend that can; another ends the run first."""
    monkeypatch.setattr(global_config, "enable_parallel_encoding", False)
    monkeypatch.chdir(tmp_path)
    text = dedent(PROGRAM).replace("sgl.set_default_backend(BACKEND)", "")
    (tmp_path / "prog.py").write_text(text, "utf-8")
    (tmp_path / "rows.jsonl").write_text('{"question": "Why?"}\n', "utf-8")
    streams = Streams(
        err=QuietStream(sys.stderr), out_is_open=True, out_is_terminal=False
    )
    options = ["-b", "mock", "--parallel-encoding"]
    code = run_command(["batch", "prog.py", "rows.jsonl", *options], streams)
    told = capfd.readouterr()

    assert code == 2
    assert told.out == ""
    assert "'mock' cannot join what it computed of branches" in told.err
