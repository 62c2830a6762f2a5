"""A real process that is killed: nothing is lost, nothing comes twice.

``CRASHES=300`` makes it long; CI runs the short form.
"""

import json
import os
import random
import re
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from sglrun.batch.journal import unpack
from tests.stand_in import StandIn

CRASHES = int(os.environ.get("CRASHES", "4"))
ROWS = 40
THREADS = 4
WAIT_S = 60
# Before its first row a process ends as any other; later it drains, or was done.
ENDS = {-signal.SIGKILL, -signal.SIGTERM, 143, 0}
PROGRAM = """
import sglrun as sgl

@sgl.function
def prog(s, q):
    s += q + sgl.gen("a") + "; and then?" + sgl.gen("b")
"""


@dataclass
class Crashes:
    """A job that is started and killed again and again, and what must hold."""

    folder: Path
    server: StandIn
    chance: random.Random
    finished: set[str] = field(default_factory=set)
    kills: int = 0

    def prepare(self) -> None:
        """Write the program and its rows; some rows are the same."""
        (self.folder / "prog.py").write_text(PROGRAM)
        names = [f"[row {self.chance.randrange(ROWS * 2)}]" for _ in range(ROWS)]
        self.rows = [{"q": name, "id": place} for place, name in enumerate(names)]
        text = "".join(json.dumps(row) + "\n" for row in self.rows)
        (self.folder / "in.jsonl").write_text(text)
        self.server.model.answer = lambda prompt, _: f" to {prompt[:9].strip()}"

    def start(self) -> "subprocess.Popen[bytes]":
        """Give the command."""
        return subprocess.Popen(
            [
                *(sys.executable, "-m", "sglrun", "batch", "prog.py", "in.jsonl"),
                *("-o", "out.jsonl", "-b", "sglang", "--url", self.server.url),
                *("-j", str(THREADS), "--no-precache", "--progress", "none"),
            ],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

    def kill(self) -> None:
        """Start the job and kill it when some more requests have come."""
        before = len(self.server.log)
        process = self.start()
        try:
            self.server.wait_for(before + self.chance.randint(3, 25))
        except TimeoutError:
            process.kill()
            pytest.fail(process.communicate(timeout=WAIT_S)[1].decode())
        process.send_signal(self.chance.choice((signal.SIGKILL, signal.SIGTERM)))
        _, told = process.communicate(timeout=WAIT_S)
        self.kills += 1

        assert process.returncode in ENDS, told.decode()

        self.check_kept()

    def check_kept(self) -> None:
        """Check that what was finished before is still there."""
        path = self.folder / "out.jsonl.part"
        lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
        entries = [entry for line in lines if (entry := unpack(line)) is not None]
        kept = Counter(json.loads(entry.line)["id"] for entry in entries)

        assert not path.exists() or self.finished <= {str(place) for place in kept}
        assert all(times == 1 for times in kept.values())

        self.finished |= {str(place) for place in kept}

    def finish(self) -> None:
        """Run the job to its end and check its results."""
        before = len(self.server.generations)
        process = self.start()
        _, told = process.communicate(timeout=WAIT_S)

        assert process.returncode == 0, told.decode()
        assert self.folder.joinpath("out.jsonl.part").exists() is False

        records = [
            json.loads(line)
            for line in self.folder.joinpath("out.jsonl").read_bytes().splitlines()
        ]

        assert [record["id"] for record in records] == list(range(ROWS))
        for row, record in zip(self.rows, records, strict=True):
            said = f" to {row['q']}"[:13]
            assert record["status"] == "ok"
            assert str(record["output"]["a"]).startswith(said[:11])

        left = ROWS - len(self.finished)

        assert len(self.server.generations) - before == 2 * left


@pytest.mark.parametrize("seed", range(max(1, CRASHES // 4)))
def test_a_killed_job_loses_nothing(
    tmp_path: Path, stand_in: StandIn, seed: int
) -> None:
    """Killed at any moment and given again, a job is done once, and pays once.

    Finished rows stay finished; after the last kill exactly the rows that are left are
    asked; at most the rows in flight at each kill are asked again.
    """
    crashes = Crashes(tmp_path, stand_in, random.Random(seed))  # noqa: S311 - kill points
    crashes.prepare()
    for _ in range(4):
        crashes.kill()
        if (tmp_path / "out.jsonl").exists():
            break
    crashes.finish()
    asked_again = len(stand_in.generations) - 2 * ROWS

    assert 0 <= asked_again <= 2 * THREADS * crashes.kills
    assert re.match(r"\[row", str(crashes.rows[0]["q"]))
