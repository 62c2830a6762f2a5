"""Crashes: one job, given again and again while everything happens to it.

The process is a real one, and so are its signals and its files. The server is the
suite's own and gives each answer a number of its own, so that the files and the log of
the server tell of each answer whether it was lost, used twice, or paid for twice.
"""

import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from sglrun.batch.journal import Entry, unpack
from tests.stand_in import StandIn, status

WAIT_S = 120
FORKS = 2
MOST_THREADS = 6
PROGRAM = """
import sglrun as sgl

@sgl.function
def prog(s, q):
    s += q + sgl.gen("a")
    forks = s.fork(2)
    forks += ";" + sgl.gen("b")
    s["both"] = [fork["b"] for fork in forks]
    s += ";" + "".join(s["both"]) + sgl.select("c", ["x", "y"])
    s += ";" + sgl.gen("d", n=2)
"""
_LIMITED = """
import os, resource, sys
limit = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
"""
_ANSWER = re.compile(rb"<(\d+)>")


@dataclass
class Crashes:
    """A job and what must hold of it.

    Attributes:
        folder: where its files lie.
        server: what answers.
        chance: chooses everything that happens.
        counts: what happened, by name.
    """

    folder: Path
    server: StandIn
    chance: random.Random
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        """Write the program and its rows, some of them the same."""
        self.out = self.folder / "out.jsonl"
        self.part = self.folder / "out.jsonl.part"
        self.steps = self.folder / "out.jsonl.steps"
        self.manifest = self.folder / "out.jsonl.run.json"
        (self.folder / "prog.py").write_text(PROGRAM)
        self._lock = threading.Lock()
        self._prompts: list[str] = []  # of each answer, by its number
        self._kept: set[int] = set()  # answers that some run has left on the disk
        self._removed: set[str] = set()  # rows that were taken out of the input
        self.server.model.answer = lambda prompt, _: self._answer(prompt)
        self.rows = [self._new_row() for _ in range(self.chance.randint(8, 30))]
        self._write_rows()

    def happen(self) -> None:
        """Run the job, let something happen to it, and look at what it leaves."""
        if self.chance.random() < 0.3:
            self._edit_rows()
        self._break_server()
        fault = self.chance.choice(list(FAULTS))
        process = self._start(self._limit() if fault == "full" else None)
        with _Watch(self.out):
            FAULTS[fault](self, process)
            told = _ended(process)
        self.counts[fault] += 1
        self.counts[f"exit {process.returncode}"] += 1

        assert process.returncode in _ENDS[fault], told

        self.counts[f"left {' '.join(self._files())}"] += 1
        self.server.forgive()
        left = self._look()
        self._check_lost(left)
        if self.chance.random() < 0.3:
            self._damage()
            left = self._look()
        self._kept = left
        self.counts["answers kept"] += len(left)

    def finish(self) -> None:
        """Run the job to its end, and check all of it."""
        process = self._start()
        told = _ended(process)

        assert process.returncode == 0, told
        assert self._files() == ["out", "run.json"]

        self._check_records()
        before = len(self.server.log)
        process = self._start()
        told = _ended(process)

        assert process.returncode == 0, told
        assert "/generate" not in {entry.path for entry in self.server.log[before:]}

    def _files(self) -> list[str]:
        """Return what lies there of the results, by what comes after their name."""
        names = sorted(path.name for path in self.folder.glob("out.jsonl*"))
        return [name.removeprefix("out.jsonl").strip(".") or "out" for name in names]

    def _check_records(self) -> None:
        records = [json.loads(line) for line in self.out.read_bytes().splitlines()]

        assert [record["index"] for record in records] == list(range(len(self.rows)))

        used: list[int] = []
        for row, record in zip(self.rows, records, strict=True):
            assert record["status"] == "ok", record

            used += self._check_record(row, record["output"])
        twice = [number for number, times in Counter(used).items() if times > 1]

        assert twice == []

        self._check_lost(set(used))

    def _check_lost(self, left: set[int]) -> None:
        """Check that all answers that were kept before are among those that are left.

        Those of rows that were taken out of the input may have gone with them.
        """
        lost = [self._prompts[number] for number in self._kept - left]

        assert {text for text in lost if _row_in(text) not in self._removed} == set()

    def _check_record(self, row: str, output: dict[str, object]) -> list[int]:
        """Check that the answers of one row follow from each other; return them."""
        (a,), both, after = map(_numbers, (output["a"], output["both"], output["d"]))
        first = f"{row} <{a}>"
        said = "".join(f" <{number}>" for number in both)

        assert self._prompts[a] == row
        assert [self._prompts[number] for number in both] == [f"{first};"] * FORKS
        assert [self._prompts[number] for number in after] == [
            f"{first};{said}{output['c']};"
        ] * len(after)

        return [a, *both, *after]

    def _answer(self, prompt: str) -> str:
        with self._lock:
            self._prompts.append(prompt)
            return f" <{len(self._prompts) - 1}>"

    def _new_row(self) -> str:
        return f"[row {self.chance.randrange(60)}]"

    def _edit_rows(self) -> None:
        edit = self.chance.choice(("insert", "remove", "shuffle", "double"))
        self.counts[f"rows: {edit}"] += 1
        if edit == "insert":
            place = self.chance.randrange(len(self.rows) + 1)
            self.rows[place:place] = [self._new_row() for _ in range(3)]
        elif edit == "remove" and len(self.rows) > 4:
            self._removed.add(self.rows.pop(self.chance.randrange(len(self.rows))))
        elif edit == "shuffle":
            self.chance.shuffle(self.rows)
        else:
            self.rows.append(self.chance.choice(self.rows))
        self._write_rows()

    def _write_rows(self) -> None:
        text = "".join(json.dumps({"q": row}) + "\n" for row in self.rows)
        (self.folder / "in.jsonl").write_text(text)

    def _break_server(self) -> None:
        if self.chance.random() < 0.5:
            code = self.chance.choice((400, 400, 500, 401))
            number = 1 if code == 401 else self.chance.randint(1, 3)
            self.counts[f"server: {code}"] += 1
            self.server.fail(*[status(code)] * number, path="/generate")

    def _start(self, limit: int | None = None) -> "subprocess.Popen[bytes]":
        threads = str(self.chance.randint(1, MOST_THREADS))
        words = [
            *("-m", "sglrun", "batch", "prog.py", "in.jsonl", "-o", "out.jsonl"),
            *("-b", "sglang", "--url", self.server.url, "--no-precache"),
            *("-j", threads, "--max-in-flight", threads, "--progress", "none"),
        ]
        if limit is not None:
            words = ["-c", _LIMITED, str(limit), *words]
        return subprocess.Popen(
            [sys.executable, *words],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

    def _limit(self) -> int:
        """Return how large files may grow: the journal or the answers, a little."""
        path = self.chance.choice((self.part, self.steps))
        size = path.stat().st_size if path.exists() else 0
        return max(size + self.chance.randint(0, 3000), 2500)

    def _damage(self) -> None:
        """Leave of a journal what a crash of the system may leave."""
        path = self.chance.choice((self.part, self.steps))
        if not path.exists():
            return
        content = path.read_bytes()
        cut = self.chance.randint(0, min(len(content), 900))
        kind = self.chance.choice(("cut", "garbage", "zeros"))
        self.counts[f"tail: {kind}"] += 1
        if kind == "cut":
            content = content[: len(content) - cut]
        elif kind == "garbage":
            content += self.chance.randbytes(self.chance.randint(1, 300))
        else:  # blocks that were allocated and never written
            content = content[: len(content) - cut] + bytes(cut)
        path.write_bytes(content)

    def _look(self) -> set[int]:
        """Check what lies there; return the answers that must not be lost."""
        rows, steps = _entries(self.part), _entries(self.steps)
        asked = Counter((entry.serial, entry.line[:50]) for entry in steps)

        assert max(asked.values(), default=1) == 1, "an answer that was kept came again"

        finished = [entry for entry in rows if entry.finished]
        done = {entry.serial for entry in finished if entry.serial}
        kept = [*finished, *(each for each in steps if each.serial not in done)]
        if not rows and self.out.exists():
            lines = self.out.read_bytes().splitlines()
            kept += [_complete(line) for line in lines if b'"status": "ok"' in line]
        numbers = [number for entry in kept for number in _numbers(entry.line)]
        own = [_numbers(entry.line) for entry in finished]

        assert len({number for each in own for number in each}) == sum(map(len, own))

        return set(numbers)


def _complete(line: bytes) -> Entry:
    return Entry(line=line, finished=True, key=b"")


def _entries(path: Path) -> list[Entry]:
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    return [entry for line in lines if (entry := unpack(line)) is not None]


def _row_in(prompt: str) -> str:
    return prompt.partition("]")[0] + "]"


def _numbers(said: object) -> list[int]:
    data = said if isinstance(said, bytes) else json.dumps(said).encode()
    return [int(number) for number in _ANSWER.findall(data)]


def _ended(process: "subprocess.Popen[bytes]") -> str:
    try:
        _, told = process.communicate(timeout=WAIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return told.decode()


class _Watch:
    """Looks at the results all the time: they are complete, or not there."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._wrong: list[bytes] = []

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._thread.join(WAIT_S)

        assert self._wrong == []

    def _run(self) -> None:
        seen: object = None
        while not self._over.wait(0.002):
            try:
                about = self._path.stat()
                if (about.st_ino, about.st_size, about.st_mtime_ns) == seen:
                    continue
                data = self._path.read_bytes()
            except FileNotFoundError:
                continue
            seen = (about.st_ino, about.st_size, about.st_mtime_ns)
            try:
                found = [json.loads(line)["index"] for line in data.splitlines()]
            except ValueError:
                found = []
            whole = data.endswith(b"\n") and found == list(range(len(found)))
            if not whole or b'"_journal"' in data:
                self._wrong.append(data)


def _wait(process: "subprocess.Popen[bytes]", ready: Callable[[], bool]) -> None:
    """Wait until something is so, or the process has ended."""
    while process.poll() is None and not ready():
        time.sleep(0.0005)


def _send(crashes: Crashes, process: "subprocess.Popen[bytes]", *names: str) -> None:
    number = signal.Signals[f"SIG{crashes.chance.choice(names)}"]
    crashes.counts[number.name] += 1
    process.send_signal(number)


_ALL = ("KILL", "KILL", "TERM", "INT", "HUP")


def _after_requests(crashes: Crashes, process: "subprocess.Popen[bytes]") -> None:
    many = len(crashes.server.log) + crashes.chance.randint(3, 60)
    _wait(process, lambda: len(crashes.server.log) >= many)
    _send(crashes, process, *_ALL)


def _as_files_grow(crashes: Crashes, process: "subprocess.Popen[bytes]") -> None:
    path = crashes.chance.choice((crashes.part, crashes.steps))
    more = crashes.chance.randint(1, 4000)

    def size() -> int:
        try:
            return path.stat().st_size
        except FileNotFoundError:
            return 0

    begun = size()
    _wait(process, lambda: size() >= begun + more)
    _send(crashes, process, "KILL")


def _at_the_end(crashes: Crashes, process: "subprocess.Popen[bytes]") -> None:
    names = ("out.jsonl.new", "out.jsonl.run.json.new", "out.jsonl.steps.new")
    paths = [crashes.folder / name for name in names]
    begun = len(crashes.server.log)
    pause = crashes.chance.random() * 0.02

    def ending() -> bool:
        asked = len(crashes.server.log) > begun + 1
        return asked and any(path.exists() for path in paths)

    _wait(process, ending)
    time.sleep(pause)
    _send(crashes, process, "KILL")


def _at_any_time(crashes: Crashes, process: "subprocess.Popen[bytes]") -> None:
    until = time.monotonic() + crashes.chance.random() * 3
    _wait(process, lambda: time.monotonic() >= until)
    _send(crashes, process, *_ALL)


def _twice(crashes: Crashes, process: "subprocess.Popen[bytes]") -> None:
    many = len(crashes.server.log) + crashes.chance.randint(5, 40)
    _wait(process, lambda: len(crashes.server.log) >= many)
    _send(crashes, process, "TERM", "INT")
    pause = time.monotonic() + crashes.chance.random() * 0.1
    _wait(process, lambda: time.monotonic() >= pause)
    _send(crashes, process, "TERM", "INT", "KILL")


def _nothing(crashes: Crashes, process: "subprocess.Popen[bytes]") -> None:
    del crashes, process


FAULTS: dict[str, Callable[[Crashes, "subprocess.Popen[bytes]"], None]] = {
    "after requests": _after_requests,
    "as files grow": _as_files_grow,
    "at the end": _at_the_end,
    "at any time": _at_any_time,
    "two signals": _twice,
    "full": _nothing,
    "none": _nothing,
}
"""What happens to a process, by name."""

_SIGNALLED = {
    *(-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP),
    *(143, 130, 129),
}
_DONE = {0, 1, 3}
_ENDS = {
    **dict.fromkeys(FAULTS, _SIGNALLED | _DONE),
    "full": _DONE | {2},
    "none": _DONE,
}
