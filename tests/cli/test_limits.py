"""Limits of ``sglrun batch``: the real process before a real server."""

import json
import re
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from tests.cli.process import WAIT_S, command, environment, sglrun
from tests.stand_in import Fault, Handler, StandIn, hang, reset, status
from tests.stand_in_model import Json, PretendModel

PROGRAM = """\
import sglrun as sgl

@sgl.function
def reply(s, q):
    s += "Question: " + q + "\\nAnswer:"
    s += sgl.gen("a", max_tokens=20)
"""
PROFILE = """\
profiles:
  paid:
    backend: openai
    url: {url}
    prices: {{prompt: 1000, completion: 5000}}
"""
PATH = "/v1/completions"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a program and 40 rows in it."""
    (tmp_path / "prog.py").write_text(PROGRAM, "utf-8")
    rows = "".join(json.dumps({"q": f"what is {n}?"}) + "\n" for n in range(40))
    (tmp_path / "in.jsonl").write_text(rows, "utf-8")
    return tmp_path


def batch(
    folder: Path, server: StandIn, *arguments: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run all rows of *folder* on *server*, into out.jsonl."""
    return sglrun(
        *("batch", "prog.py", "in.jsonl", "-o", "out.jsonl", "--no-precache"),
        *(() if "-b" in arguments else ("-b", "openai", "--url", server.url)),
        *arguments,
        folder=folder,
        **variables,
    )


@contextmanager
def running(folder: Path, url: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Start a run of all rows of *folder* on the server at *url*, into out.jsonl."""
    with subprocess.Popen(
        command(
            *("batch", "prog.py", "in.jsonl", "-o", "out.jsonl", "--no-precache"),
            *("-b", "openai", "--url", url, *arguments),
        ),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=environment(folder),
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def results(folder: Path) -> list[dict[str, Any]]:
    """Return the results; they must be complete."""
    lines = (folder / "out.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def journaled(folder: Path) -> list[str]:
    """Return the status of each result that is there, where the run is not over."""
    lines = (folder / "out.jsonl.part").read_text("utf-8").splitlines()
    return [json.loads(line)["status"] for line in lines]


class Spender:
    """A model that counts what it reads and writes."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.tokens = self.cost = self.requests = 0
        self._lock = threading.Lock()
        self._model = PretendModel()

    def __call__(self, prompt: str, _: Json) -> str:
        """Answer with between one and 20 tokens."""
        text = " w" * (1 + len(prompt) * 7 % 20)
        read, written = (len(self._model.tokens(part)) for part in (prompt, text))
        with self._lock:
            self.requests += 1
            self.tokens += read + written
            self.cost += read * 1000 + written * 5000
        return text


def test_a_restart_of_the_server_fails_no_row(folder: Path) -> None:
    """A server that is away for a while is waited for; the run goes on, and says so."""
    first = StandIn()
    with first, running(folder, first.url, "-j", "4") as run:
        first.wait_for(20)
        first.__exit__()
        noticed = next(line for line in errors(run) if "server is down since" in line)
        with StandIn(port=first.port) as second:
            _, told = run.communicate(timeout=WAIT_S)
    before, after = (
        {entry.get("prompt") for entry in server.generations}
        for server in (first, second)
    )

    assert run.returncode == 0, told
    assert [result["status"] for result in results(folder)] == ["ok"] * 40
    assert after
    assert len((before | after) - {None}) == 40
    assert noticed.startswith("sglrun: the server is down since ")
    assert "nothing listens there" in noticed
    assert "the server is down" not in told
    assert told.count("sglrun: the server is back") == 1


def errors(run: subprocess.Popen[str]) -> IO[str]:
    """Return what *run* writes to stderr, as it comes."""
    assert run.stderr is not None
    return run.stderr


def test_a_server_that_stays_away_ends_the_run(folder: Path) -> None:
    """After the wait it is exit 3; the same command goes on with what is missing."""
    with (
        StandIn() as first,
        running(folder, first.url, "-j", "4", "--wait-for-server", "1.5") as run,
    ):
        first.wait_for(20)
        first.__exit__()
        began = time.monotonic()
        _, told = run.communicate(timeout=WAIT_S)
        took_s = time.monotonic() - began
    finished = journaled(folder).count("ok")
    with StandIn(port=first.port) as second:
        again = batch(folder, second)

    assert run.returncode == 3
    assert "did not come back in " in told
    assert "(--wait-for-server)" in told
    assert took_s < 20
    assert again.returncode == 0
    assert len(second.generations) == 40 - finished
    assert [result["status"] for result in results(folder)] == ["ok"] * 40


def test_a_proxy_that_finds_no_server_is_waited_for(folder: Path) -> None:
    """502 for all, as while the server behind a proxy restarts, fails no row."""
    answered: list[str] = []

    def note(prompt: str, _: Json) -> str:
        answered.append(prompt)
        if len(answered) == 10:
            server.fail_always(status(502))
        return f" {len(prompt)}"

    with (
        StandIn(PretendModel(answer=note)) as server,
        running(folder, server.url, "-j", "4") as run,
    ):
        next(line for line in errors(run) if "server is down since" in line)
        server.recover()
        _, told = run.communicate(timeout=WAIT_S)

    assert run.returncode == 0, told
    assert [result["status"] for result in results(folder)] == ["ok"] * 40


def test_rows_that_break_the_connection_fail_alone(folder: Path) -> None:
    """Requests that a server breaks off, one after another, are no server that is down.

    Their rows fail; the others run.
    """
    with StandIn() as server:
        server.fail(*[answer] * 3, *[reset] * 5, path=PATH)
        run = batch(folder, server, "-j", "1", "--retries", "0")
    found = [result["status"] for result in results(folder)]

    assert run.returncode == 1
    assert found == ["ok"] * 3 + ["error"] * 5 + ["ok"] * 32
    assert "the server is down" not in run.stderr


def answer(handler: Handler) -> None:
    """Answer as if nothing were wrong."""
    text = {"index": 0, "text": " yes", "finish_reason": "stop"}
    usage = {"prompt_tokens": 9, "completion_tokens": 1}
    handler.send_json(200, {"choices": [text], "usage": usage})


@pytest.mark.parametrize("threads", ["1", "64"])
def test_no_more_tokens_are_spent_than_allowed(folder: Path, threads: str) -> None:
    """The server's own count stays within the budget of all runs of one output."""
    spender = Spender()
    with StandIn(PretendModel(answer=spender)) as server:
        first = batch(folder, server, "-j", threads, "--max-total-tokens", "400")
        spent = spender.tokens
        again = batch(folder, server, "-j", threads, "--max-total-tokens", "400")
        more = batch(folder, server, "-j", threads, "--max-total-tokens", "520")
        spent_more = spender.tokens
        rest = batch(folder, server, "-j", threads)

    assert [run.returncode for run in (first, again, more, rest)] == [3, 3, 3, 0]
    assert "of 400 tokens (--max-total-tokens)" in first.stderr
    assert "the same command again goes on from here" in first.stderr
    assert 200 < spent <= 400
    assert spent < spent_more <= 520
    assert spender.requests == 40


def test_no_more_money_is_spent_than_allowed(folder: Path) -> None:
    """The cost by the profile's prices stays within its limit, and is told."""
    spender = Spender()
    with StandIn(PretendModel(answer=spender)) as server:
        (folder / "sglrun.yaml").write_text(PROFILE.format(url=server.url), "utf-8")
        run = batch(folder, server, "-b", "paid", "-j", "32", "--max-cost", "1.5")
        spent = spender.cost / 1e6
        rest = batch(folder, server, "-b", "paid")
    found = results(folder)
    manifest = json.loads((folder / "out.jsonl.run.json").read_text("utf-8"))

    assert run.returncode == 3
    assert "of 1.5 (--max-cost)" in run.stderr
    assert 0.9 < spent <= 1.5
    assert re.search(r"cost 1\.\d+, 0\.0\d+ a row", run.stderr)
    assert rest.returncode == 0
    assert sum(result["cost"] for result in found) == pytest.approx(spender.cost / 1e6)
    assert manifest["about"]["last run"]["cost"] == pytest.approx(
        spender.cost / 1e6 - spent
    )


def test_a_cost_that_nobody_knows_is_2(folder: Path) -> None:
    """A limit on money without prices sends nothing."""
    with StandIn() as server:
        run = batch(folder, server, "--max-cost", "1")

    assert run.returncode == 2
    assert "--max-cost: what a token costs is not known" in run.stderr
    assert server.log == []


def test_the_shared_prefix_is_spent_too(folder: Path) -> None:
    """What is sent before the rows is held against the budget."""
    (folder / "prog.py").write_text(
        PROGRAM.replace('"Question: "', '"You answer briefly. " * 40 + "Question: "')
    )
    with StandIn() as server:
        run = sglrun(
            *("batch", "prog.py", "in.jsonl", "--url", server.url),
            *("--max-total-tokens", "100"),
            folder=folder,
        )

    assert run.returncode == 3
    assert server.generations == []
    assert "the budget ends here" in run.stderr


def test_a_rate_spreads_requests(folder: Path) -> None:
    """``--rpm`` lets a second's worth go at once, and then keeps the pace."""
    arrived: list[float] = []

    def note(prompt: str, _: Json) -> str:
        arrived.append(time.monotonic())
        return f" {len(prompt)}"

    with StandIn(PretendModel(answer=note)) as server:
        run = batch(folder, server, "--rpm", "300", "--limit", "15", "--timeout", "1")
    gaps = [later - first for first, later in zip(arrived, arrived[6:], strict=False)]

    assert run.returncode == 0, run.stderr
    assert len(arrived) == 15
    assert arrived[-1] - arrived[0] > 1.7
    assert min(gaps) > 0.1
    assert {result["attempts"] for result in results(folder)} == {1}


def limited(**headers: str) -> Fault:
    """Answer 429 with *headers*."""
    return status(429, **headers)


@pytest.mark.parametrize(
    "headers",
    [
        {"Retry_After": "1"},
        {"Retry_After_Ms": "1000"},
        {"X_RateLimit_Remaining_Requests": "0", "X_RateLimit_Reset_Requests": "1s"},
        {"X_RateLimit_Remaining_Tokens": "0", "X_RateLimit_Reset_Tokens": "1000ms"},
        {"RateLimit": '"default";r=0;t=1'},
    ],
)
def test_a_hint_is_waited_for(folder: Path, headers: dict[str, str]) -> None:
    """No request comes before the time that a 429 names, and no try is used up."""
    with StandIn() as server:
        began: list[float] = []

        def throttle(handler: Handler) -> None:
            began.append(time.monotonic())
            limited(**headers)(handler)

        def note(prompt: str, _: Json) -> str:
            began.append(time.monotonic())
            return f" {len(prompt)}"

        server.model.answer = note
        server.fail(throttle, path=PATH)
        run = batch(folder, server, "-j", "1", "--retries", "0", "--limit", "3")

    assert run.returncode == 0, run.stderr
    assert 0.95 < began[1] - began[0] < 1.6
    assert [result["attempts"] for result in results(folder)] == [2, 1, 1]


def test_a_quota_that_is_used_up_is_waited_for(folder: Path) -> None:
    """An answer that says nothing is left holds the next request back."""
    arrived: list[float] = []

    def last(handler: Handler) -> None:
        arrived.append(time.monotonic())
        text = {"index": 0, "text": " yes", "finish_reason": "stop"}
        handler.send(
            200,
            json.dumps({"choices": [text], "usage": {"prompt_tokens": 9}}).encode(),
            headers={
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-requests": "1s",
            },
        )

    def note(prompt: str, _: Json) -> str:
        arrived.append(time.monotonic())
        return f" {len(prompt)}"

    with StandIn(PretendModel(answer=note)) as server:
        server.fail(last, path=PATH)
        run = batch(folder, server, "-j", "1", "--limit", "2")

    assert run.returncode == 0, run.stderr
    assert arrived[1] - arrived[0] > 0.95


def test_a_late_answer_is_not_read(folder: Path) -> None:
    """A request that timed out is hung up on and counted; the next try counts."""
    with StandIn() as server:
        server.fail(hang, path=PATH)
        run = batch(
            folder,
            server,
            *("-j", "1", "--limit", "2", "--timeout", "1", "--progress", "json"),
        )
    told = json.loads(run.stderr.splitlines()[-1])

    assert run.returncode == 0, run.stderr
    assert [result["attempts"] for result in results(folder)] == [2, 1]
    assert told["lost_requests"] == 1


def test_a_bad_line_sends_nothing_with_strict(folder: Path) -> None:
    """``--strict`` names every bad line before a server is asked at all."""
    with (folder / "in.jsonl").open("a") as rows:
        rows.write('{"q": \n{"x": 1}\n{"q": "a", "q": "b"}\n')
    with StandIn() as server:
        run = batch(folder, server, "--strict")
        good = batch(folder, server, "--strict", "--limit", "40")

    assert run.returncode == 2
    assert "in.jsonl:41:7: not JSON" in run.stderr
    assert "in.jsonl:42: missing argument 'q'" in run.stderr
    assert "in.jsonl:43:17: 'q' stands here twice" in run.stderr
    assert good.returncode == 0
    assert len(server.generations) == 40


def test_strict_reads_a_pipe_twice(folder: Path) -> None:
    """Rows of a pipe are kept while they are checked."""
    rows = (folder / "in.jsonl").read_text("utf-8")
    good = sglrun(
        *("batch", "prog.py", "-", "-b", "mock", "--strict"), folder=folder, stdin=rows
    )
    bad = sglrun(
        *("batch", "prog.py", "-", "-b", "mock", "--strict"),
        folder=folder,
        stdin=rows + "[1]\n",
    )

    assert (good.returncode, len(good.stdout.splitlines())) == (0, 40)
    assert (bad.returncode, bad.stdout) == (2, "")
    assert "<stdin>:41:1: not a row" in bad.stderr
