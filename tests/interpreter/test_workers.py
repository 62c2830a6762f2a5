"""Workers: bounded threads, a line that moves, and work that begins work."""

import threading
from contextvars import ContextVar

import pytest

import sglrun as sgl
from sglrun.backends.base import Request
from sglrun.backends.mock import MockBackend
from sglrun.interpreter import executor
from sglrun.interpreter.workers import Workers

WAIT_S = 20.0


def test_no_more_threads_than_allowed_run_all_work_in_order() -> None:
    """What finds no thread free waits its turn; the threads end with the work."""
    workers = Workers(2)
    gate, lock = threading.Event(), threading.Lock()
    done: list[int] = []
    all_done = threading.Event()
    at_work: set[str] = set()

    def work(number: int) -> None:
        gate.wait(WAIT_S)
        with lock:
            at_work.add(threading.current_thread().name + str(threading.get_ident()))
            done.append(number)
            if len(done) == 20:
                all_done.set()

    for number in range(20):
        workers.run(lambda number=number: work(number))  # type: ignore[misc]
    gate.set()

    assert all_done.wait(WAIT_S)
    assert sorted(done) == list(range(20))
    assert len(at_work) <= 2


def test_work_that_begins_work_is_not_held_up() -> None:
    """Work that waits for what it began would else wait for itself."""
    workers = Workers(1)
    inner, outer = threading.Event(), threading.Event()

    def work() -> None:
        workers.run(inner.set)
        if inner.wait(WAIT_S):
            outer.set()

    workers.run(work)

    assert outer.wait(WAIT_S)


def test_the_context_goes_along() -> None:
    """Work that waits in line still sees the variables of who asked for it."""
    variable: ContextVar[str] = ContextVar("variable", default="none")
    workers = Workers(1)
    gate, over = threading.Event(), threading.Event()
    seen: list[str] = []

    def look() -> None:
        seen.append(variable.get())
        over.set()

    workers.run(lambda: gate.wait(WAIT_S))
    token = variable.set("mine")
    workers.run(look)
    variable.reset(token)
    gate.set()

    assert over.wait(WAIT_S)
    assert seen == ["mine"]


def test_without_a_thread_of_the_system_work_waits_for_one_of_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where none can be started, those at work take it; where none is, it is told."""
    workers = Workers(8)
    gate, over = threading.Event(), threading.Event()
    workers.run(lambda: gate.wait(WAIT_S))

    def none_left(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", none_left)
    workers.run(over.set)
    gate.set()

    assert over.wait(WAIT_S)
    with pytest.raises(RuntimeError, match="can't start"):
        Workers(8).run(over.set)


@pytest.mark.parametrize("depth", [1, 3])
def test_forks_of_any_size_and_depth_end_with_few_threads(
    depth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """2,000 branches, and 12 in each of 12 in each of 12, share eight threads."""
    monkeypatch.setattr(executor, "WORKERS", Workers(8))
    most, lock = 0, threading.Lock()

    def answer(request: Request) -> str:
        nonlocal most
        with lock:
            names = [thread.name for thread in threading.enumerate()]
            most = max(most, names.count("sglrun-program"))
        return "x"

    def grow(state: sgl.ProgramState, depth: int, size: int) -> None:
        forks = state.fork(size)
        if depth == 1:
            forks += sgl.gen("v", max_tokens=1)
        else:
            forks += sgl.gen("v", max_tokens=1)
            for fork in forks:
                grow(fork, depth - 1, size)
        forks.join()

    @sgl.function
    def program(s: sgl.ProgramState) -> None:
        s += "a"
        grow(s, depth, 2000 if depth == 1 else 12)

    state = program.run(backend=MockBackend(answer))

    assert state.error() is None
    assert len(state["v"]) == (2000 if depth == 1 else 12)
    assert most <= 8
