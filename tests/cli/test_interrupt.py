"""Signals and pipes, with real processes."""

import contextlib
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.process import WAIT_S, command, environment
from tests.stand_in import Handler, StandIn

ROWS = 300
PROGRAM = """\
import sglrun as sgl

@sgl.function
def reply(s, q):
    s += "Question: " + q
    s += sgl.gen("a", max_tokens=8)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a program and more rows than a moment can run."""
    (tmp_path / "prog.py").write_text(PROGRAM, "utf-8")
    rows = "".join(f'{{"q": "number {number}"}}\n' for number in range(ROWS))
    (tmp_path / "in.jsonl").write_text(rows, "utf-8")
    return tmp_path


@contextmanager
def started(
    folder: Path,
    server: StandIn,
    *more: str,
    stderr: int = subprocess.PIPE,
    process_group: int | None = None,
) -> Iterator[subprocess.Popen[str]]:
    """Start a run of one row at a time against *server*."""
    with subprocess.Popen(
        command(
            *("batch", "prog.py", "in.jsonl", "-b", "sglang", "--url", server.url),
            *("-j", "1", "--no-precache", "--retries", "0", *more),
        ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        cwd=folder,
        env=environment(folder, TERM="xterm"),
        process_group=process_group,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


class SlowRow:
    """A fault: rows are answered once the server is released; that of the index 2."""

    def __init__(self, server: StandIn, *more: int) -> None:
        """Slow *server* down, for the rows *more* too; the last one tells."""
        self._slow = tuple(f"number {index}" for index in (2, *more))
        self.began = threading.Event()
        self._server = server
        server.fail_always(self, path="/generate")

    def __call__(self, handler: Handler) -> None:
        """Answer, perhaps late."""
        payload = self._server.log[-1].payload
        if payload["text"].endswith(self._slow):
            if payload["text"].endswith(self._slow[-1]):
                self.began.set()
            self._server.released.wait(WAIT_S)
        handler._answer(self._server, payload)


def told(process: subprocess.Popen[str], words: str) -> str:
    """Read stderr up to the line with *words*."""
    assert process.stderr is not None
    return next(line for line in process.stderr if words in line)


def indices(path: Path) -> list[int]:
    """Return the indices of the results in *path*."""
    lines = path.read_text("utf-8").splitlines()
    return [json.loads(line)["index"] for line in lines]


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)],
)
def test_a_signal_drains_and_the_same_command_finishes(
    folder: Path, stand_in: StandIn, number: signal.Signals, code: int
) -> None:
    """Rows in flight are waited for; no row is lost, and none is run twice."""
    slow = SlowRow(stand_in)
    with started(folder, stand_in, "-o", "out.jsonl") as process:
        assert slow.began.wait(WAIT_S)
        process.send_signal(number)
        told(process, f"{number.name}: waiting up to 30 s for 1 row")
        stand_in.released.set()
        _, rest = process.communicate(timeout=WAIT_S)
    asked = len(stand_in.generations)

    assert process.returncode == code
    assert not (folder / "out.jsonl").exists()
    assert 3 <= asked < ROWS
    assert "the same command again goes on from here" in rest
    assert f"sglrun: error: interrupted by {number.name}" in rest

    with started(folder, stand_in, "-o", "out.jsonl") as process:
        _, rest = process.communicate(timeout=WAIT_S)

    assert process.returncode == 0
    assert indices(folder / "out.jsonl") == list(range(ROWS))
    assert len(stand_in.generations) == ROWS
    assert f"{asked} done before" in rest


def test_a_run_that_was_held_goes_on(folder: Path, stand_in: StandIn) -> None:
    """A process that is stopped and continued runs all rows, each once."""
    slow = SlowRow(stand_in)
    with started(folder, stand_in, "-o", "out.jsonl", "--limit", "5") as process:
        assert slow.began.wait(WAIT_S)
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        stand_in.released.set()
        process.send_signal(signal.SIGCONT)
        process.communicate(timeout=WAIT_S)

    assert process.returncode == 0
    assert indices(folder / "out.jsonl") == list(range(5))
    assert len(stand_in.generations) == 5


def test_a_hang_up_that_is_ignored_stops_nothing(
    folder: Path, stand_in: StandIn
) -> None:
    """Under ``nohup`` a run outlives its terminal, and can still be told to stop."""
    slow = SlowRow(stand_in)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # which a child inherits
    try:
        with started(folder, stand_in, "-o", "out.jsonl") as process:
            assert slow.began.wait(WAIT_S)
            process.send_signal(signal.SIGHUP)
            process.send_signal(signal.SIGTERM)
            told(process, "SIGTERM: waiting")
            stand_in.released.set()
            process.communicate(timeout=WAIT_S)
    finally:
        signal.signal(signal.SIGHUP, before)

    assert process.returncode == 143


def test_results_that_are_taken_away_end_the_run(
    folder: Path, stand_in: StandIn
) -> None:
    """Where the folder is removed, the run ends at the next row, and says why."""
    (folder / "there").mkdir()
    slow = SlowRow(stand_in)
    with started(folder, stand_in, "-o", "there/out.jsonl") as process:
        assert slow.began.wait(WAIT_S)
        shutil.rmtree(folder / "there")
        stand_in.released.set()
        _, said = process.communicate(timeout=WAIT_S)

    assert process.returncode == 3
    assert "was removed while the run wrote to it" in said
    assert len(stand_in.generations) < ROWS


def test_grace_ends_the_wait(folder: Path, stand_in: StandIn) -> None:
    """With ``--grace 0`` the row in flight is given up, those before it are kept."""
    slow = SlowRow(stand_in)
    with started(folder, stand_in, "-o", "out.jsonl", "--grace", "0") as process:
        assert slow.began.wait(WAIT_S)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=WAIT_S)

    assert process.returncode == 143
    assert not stand_in.released.is_set()


def test_a_second_signal_leaves_at_once(folder: Path, stand_in: StandIn) -> None:
    """Who insists, with another signal, is not made to wait for the grace."""
    slow = SlowRow(stand_in)
    with started(folder, stand_in, "--grace", "1000") as process:
        assert slow.began.wait(WAIT_S)
        process.send_signal(signal.SIGINT)
        told(process, "a second one leaves at once")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=WAIT_S)

    assert process.returncode == 143
    assert not stand_in.released.is_set()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_same_signal_later_leaves_at_once(
    folder: Path, stand_in: StandIn, number: signal.Signals
) -> None:
    """Who insists with the same signal leaves once half a second is over."""
    slow = SlowRow(stand_in)
    with started(folder, stand_in, "--grace", "1000") as process:
        assert slow.began.wait(WAIT_S)
        process.send_signal(number)
        told(process, "a second one leaves at once")
        began = time.monotonic()
        while process.poll() is None:
            process.send_signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.1)
            assert time.monotonic() - began < WAIT_S
        took_s = time.monotonic() - began
        process.communicate(timeout=WAIT_S)

    assert process.returncode == 128 + number
    assert took_s > 0.3  # the half second began a little before
    assert not stand_in.released.is_set()


TWICE = """\
import signal, sys, threading
from sglrun.cli.interrupt import caught_signals

first, other = map(int, sys.argv[1:])

def drain(number):
    print("drains", int(number), flush=True)
    signal.raise_signal(first)
    signal.raise_signal(first)
    signal.raise_signal(other)

with caught_signals(drain, lambda: None):
    signal.raise_signal(first)
    threading.Event().wait(60)
"""


@pytest.mark.parametrize(
    ("first", "other"),
    [(signal.SIGINT, signal.SIGTERM), (signal.SIGTERM, signal.SIGINT)],
)
def test_a_signal_that_comes_twice_at_once_is_one(
    folder: Path, first: signal.Signals, other: signal.Signals
) -> None:
    """The same signal again drains no second time, nor leaves; another one leaves."""
    run = subprocess.run(
        [sys.executable, "-c", TWICE, str(int(first)), str(int(other))],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
        env=environment(folder),
    )

    assert run.stdout.splitlines() == [f"drains {int(first)}"]
    assert run.returncode == 128 + other


def test_a_signal_to_the_process_and_its_group_loses_no_row(
    folder: Path, stand_in: StandIn
) -> None:
    """As GNU's ``timeout`` sends it: the row in flight is waited for."""
    slow = SlowRow(stand_in)
    with started(folder, stand_in, "-o", "out.jsonl", process_group=0) as process:
        assert slow.began.wait(WAIT_S)
        process.send_signal(signal.SIGTERM)
        os.killpg(process.pid, signal.SIGTERM)
        told(process, "SIGTERM: waiting")
        stand_in.released.set()
        _, rest = process.communicate(timeout=WAIT_S)

    assert process.returncode == 143
    assert "the same command again goes on from here" in rest


def test_a_second_signal_gives_the_terminal_back(
    folder: Path, stand_in: StandIn
) -> None:
    """Who leaves at once has a cursor again."""
    slow = SlowRow(stand_in)
    here, there = pty.openpty()
    shown = b""
    live = ("--progress", "rich", "--grace", "1000")
    with started(folder, stand_in, *live, stderr=there) as process:
        os.close(there)
        assert slow.began.wait(WAIT_S)
        process.send_signal(signal.SIGINT)
        while b"leaves" not in shown:
            shown += os.read(here, 1 << 16)
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(OSError):  # the other end is closed
            while more := os.read(here, 1 << 16):
                shown += more
        process.communicate(timeout=WAIT_S)
    os.close(here)

    assert process.returncode == 143
    assert shown.rindex(b"\x1b[?25h") > shown.rindex(b"\x1b[?25l")


def test_a_second_run_of_the_same_output_is_4(folder: Path, stand_in: StandIn) -> None:
    """While a run writes an output, another one does not start, and says who does."""
    slow = SlowRow(stand_in)
    with started(folder, stand_in, "-o", "out.jsonl") as process:
        assert slow.began.wait(WAIT_S)
        with started(folder, stand_in, "-o", "out.jsonl") as other:
            _, told = other.communicate(timeout=WAIT_S)

    assert other.returncode == 4
    assert f"process {process.pid}" in told


def test_results_before_a_signal_are_on_stdout(folder: Path, stand_in: StandIn) -> None:
    """Without ``-o`` the results so far are whole lines on stdout."""
    slow = SlowRow(stand_in)
    with started(folder, stand_in) as process:
        assert slow.began.wait(WAIT_S)
        process.send_signal(signal.SIGINT)
        told(process, "waiting")
        stand_in.released.set()
        out, _ = process.communicate(timeout=WAIT_S)

    assert process.returncode == 130
    assert [json.loads(line)["index"] for line in out.splitlines()] == list(
        range(len(stand_in.generations))
    )


def test_results_behind_a_row_that_hangs_are_on_stdout(
    folder: Path, stand_in: StandIn
) -> None:
    """When the grace is over, what waited for its turn is printed and counted."""
    slow = SlowRow(stand_in, 7)  # one of two at a time hangs: the others are done
    with started(folder, stand_in, "-j", "2", "--grace", "0") as process:
        assert slow.began.wait(WAIT_S)
        process.send_signal(signal.SIGTERM)
        out, said = process.communicate(timeout=WAIT_S)

    assert process.returncode == 143
    shown = [json.loads(line)["index"] for line in out.splitlines()]
    assert shown == [0, 1, 3, 4, 5, 6]
    assert re.search(r"6 rows in .*: 6 ok$", said, re.MULTILINE)


def test_a_reader_that_leaves_ends_the_run_quietly(folder: Path) -> None:
    """``| head -1`` takes one result; the run ends with 141 and says no error."""
    words = " ".join(command("batch", "prog.py", "-", "-b", "mock", "--progress=none"))
    script = (
        "set -o pipefail; "
        'yes \'{"q": "1"}\' 2>/dev/null | '
        f"({words}; echo code $? >&2) | head -1"
    )
    run = subprocess.run(
        ["bash", "-c", script],  # noqa: S607 - a shell is the point
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
        cwd=folder,
        env=environment(folder),
    )

    assert json.loads(run.stdout)["index"] == 0
    assert "code 141" in run.stderr
    assert "error" not in run.stderr
    assert "Traceback" not in run.stderr
