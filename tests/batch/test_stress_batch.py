"""Stress of a batch: made-up programs, let go in the middle in every way there is.

For more of them set ``SGLRUN_STRESS=2000``.
"""

import json
import random
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress

import pytest

import sglrun as sgl
from sglrun.backends.base import Request
from sglrun.backends.mock import MockBackend
from sglrun.batch.options import BatchOptions
from sglrun.batch.rows import Row
from sglrun.batch.runner import BatchRunner
from sglrun.errors import BadRequestError, RunInterruptedError, SglrunError
from tests.interpreter.test_stress import NUM_PROGRAMS, WAIT_S, Author, Drawn, ours

ROWS = 12
WAYS = ("to the end", "left early", "drained", "stopped at once", "out of time")


def rows() -> Iterator[Row]:
    for index in range(ROWS):
        yield Row(
            index=index,
            line=index + 1,
            content=json.dumps({"q": index}).encode(),
            fields={"q": index},
            raw={"q": str(index)},
        )


def drawn_program(seed: int) -> Callable[..., object]:
    drawn = Drawn(seed)
    author = Author(-1, ValueError("never"))

    def program(s: sgl.ProgramState, q: int) -> None:
        s += f"row {q} "
        author.perform(s, drawn.steps)

    return program


class Gate:
    """A backend's answers, held back from the fifth on until they are let go."""

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw
        self._lock = threading.Lock()
        self._asked = 0
        self.reached = threading.Event()
        self.opened = threading.Event()

    def __call__(self, _: Request) -> str:
        """Return an answer, or fail."""
        with self._lock:
            self._asked += 1
            number = self._asked
            fails = self._draw.random() < 0.05
        if number == 5:
            self.reached.set()
        if number >= 5:
            self.opened.wait(WAIT_S)
        if fails:
            raise BadRequestError(f"request {number} fails")
        return "word"


def let_go(way: str, runner: BatchRunner, gate: Gate) -> list[int]:
    """Run the rows and let go of them by *way*; return those that gave a result."""
    done: list[int] = []
    results = runner.results(rows())
    reason = RunInterruptedError("enough")

    def end() -> None:
        gate.reached.wait(WAIT_S)
        if way == "left early":
            runner.close()
            return
        runner.stop(reason, grace_s=WAIT_S)
        if way == "drained":
            gate.opened.set()
        else:
            runner.stop(reason)

    if way in ("to the end", "out of time"):
        gate.opened.set()
    else:
        threading.Thread(target=end).start()
    with suppress(SglrunError):
        done += [result.index for result in results]
    return done


@pytest.mark.timeout(120 + NUM_PROGRAMS)
@pytest.mark.parametrize("way", WAYS)
def test_whatever_ends_a_run_no_row_is_twice_and_no_thread_stays(way: str) -> None:
    """Each row gives one result at most, all of them where nothing lets go."""
    for seed in range(max(10, NUM_PROGRAMS // 10)):
        gate = Gate(random.Random(seed))  # noqa: S311 - a test's draw
        options = BatchOptions(
            num_threads=4,
            retries=0,
            order="completion",
            row_timeout_s=1e-9 if way == "out of time" else None,
        )
        backend = MockBackend(gate)
        program = sgl.function(drawn_program(seed))
        with BatchRunner(program, backend, options) as runner:
            done = let_go(way, runner, gate)
        gate.opened.set()
        for thread in ours():
            thread.join(WAIT_S)

        assert len(done) == len(set(done))
        if way in ("to the end", "out of time"):
            assert sorted(done) == list(range(ROWS))
        assert ours() == []


@pytest.mark.timeout(120 + NUM_PROGRAMS)
def test_a_generator_that_is_closed_early_lets_its_threads_go() -> None:
    """``run_batch(generator_style=True)`` takes no more runs and waits for its own."""
    for seed in range(max(10, NUM_PROGRAMS // 10)):
        gate = Gate(random.Random(seed))  # noqa: S311 - a test's draw
        gate.opened.set()
        batch = [{"q": index} for index in range(ROWS)]
        states = sgl.function(drawn_program(seed)).run_batch(
            batch, backend=MockBackend(gate), num_threads=3, generator_style=True
        )
        assert isinstance(states, Generator)
        next(states)
        states.close()
        for thread in ours():
            thread.join(WAIT_S)

        assert ours() == []
