"""Rows 87 to 95: many rows."""

import threading
from typing import Any

import sglrun as sgl
from sglrun.backends.base import Backend
from sglrun.errors import BadRequestError, ProgramError
from sglrun.interpreter.run import run_program_batch
from tests.stand_in import StandIn
from tests.stand_in_model import Json

WAIT_S = 10.0


@sgl.function
def qa(s: sgl.ProgramState, q: str) -> None:
    """Ask one question."""
    s += q + sgl.gen("a")


@sgl.function
def picky(s: sgl.ProgramState, q: str) -> None:
    """Raise for one of the rows."""
    if q == "bad":
        raise LookupError("mine")
    s += q + sgl.gen("a")


def test_row_087_dicts(backend: Backend) -> None:
    """States come in the order of the rows."""
    states = qa.run_batch([{"q": "1"}, {"q": "2"}], backend=backend)

    assert [state.text() for state in states] == ["1 OUT", "2 OUT"]


def test_row_088_tuples(backend: Backend) -> None:
    """Rows may be given by position."""
    rows: list[Any] = [("x",), ["y"]]
    states = qa.run_batch(rows, backend=backend)

    assert [state.text() for state in states] == ["x OUT", "y OUT"]


def test_row_089_wrong_arity(backend: Backend) -> None:
    """A row that does not fit is refused alone."""
    wrong, right = qa.run_batch([("x", "extra"), ("y",)], backend=backend)

    assert isinstance(wrong.error(), ProgramError)
    assert right.text() == "y OUT"


def test_row_090_empty(backend: Backend) -> None:
    """No rows are no states; by generator, an empty one."""
    assert qa.run_batch([], backend=backend) == []
    assert list(qa.run_batch([], backend=backend, generator_style=True)) == []


def test_row_091_one_backend_error(backend: Backend) -> None:
    """One refused row is one state with its cause, between two that are whole."""
    rows = [{"q": "1"}, {"q": "boom"}, {"q": "3"}]
    states = list(qa.run_batch(rows, backend=backend))

    assert [type(state.error()) for state in states] == [
        type(None),
        BadRequestError,
        type(None),
    ]


def test_row_092_one_author_error(backend: Backend) -> None:
    """One row whose code raises is one state with that, and no result is lost."""
    rows = [{"q": "1"}, {"q": "bad"}, {"q": "3"}]
    states = list(picky.run_batch(rows, backend=backend))

    assert [str(state.error() or state.text()) for state in states] == [
        "1 OUT",
        "mine",
        "3 OUT",
    ]


def test_row_093_generator_and_author_error(backend: Backend) -> None:
    """The generator goes on after a row whose code raises."""
    rows = [{"q": "1"}, {"q": "bad"}, {"q": "3"}]
    states = picky.run_batch(rows, backend=backend, generator_style=True)

    assert [str(state.error() or state.text()) for state in states] == [
        "1 OUT",
        "mine",
        "3 OUT",
    ]


def test_row_094_order(backend: Backend, stand_in: StandIn) -> None:
    """By completion, a slow row is last and known by its number.

    ``run_batch`` itself keeps the order of its rows, as programs rely on; the fan-out
    below it, which the command uses, gives rows as they finish.
    """
    others = threading.Semaphore(0)

    def answer(prompt: str, _: Json) -> str:
        if prompt == "0":
            assert all(others.acquire(timeout=WAIT_S) for _ in range(4))
        return " OUT"

    stand_in.model.answer = answer
    numbers = []
    for number, _ in run_program_batch(qa, backend, [(str(n),) for n in range(5)]):
        numbers.append(number)
        others.release()
    ordered = qa.run_batch([("1",), ("2",)], backend=backend, generator_style=True)

    assert sorted(numbers) == list(range(5))
    assert numbers[-1] == 0
    assert [state.text() for state in ordered] == ["1 OUT", "2 OUT"]


def test_row_095_early_close(backend: Backend, stand_in: StandIn) -> None:
    """Closing the generator runs no row that has not started."""
    rows = [(str(number),) for number in range(300)]
    states: Any = qa.run_batch(
        rows, backend=backend, num_threads=1, generator_style=True
    )
    next(states)
    states.close()
    asked = len(stand_in.generations)

    assert asked < len(rows)
