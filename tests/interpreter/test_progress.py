"""The progress of a batch: one line, written over itself on a terminal."""

import io

import pytest

import sglrun as sgl
from sglrun.backends.base import Request
from sglrun.backends.mock import MockBackend
from sglrun.errors import BadRequestError
from sglrun.interpreter.progress import shown


@sgl.function
def greet(s: sgl.ProgramState, name: str) -> None:
    s += name + sgl.gen("a", max_tokens=2)


def answer(request: Request) -> str:
    if "bad" in request.prompt.text:
        raise BadRequestError("no")
    return "hi"


class Terminal(io.StringIO):
    """A file that is a terminal."""

    def isatty(self) -> bool:
        """Return that it is."""
        return True


def states(*names: str) -> list[sgl.ProgramState]:
    rows = [{"name": name} for name in names]
    return list(greet.run_batch(rows, backend=MockBackend(answer)))


def test_a_batch_shows_its_progress(capsys: pytest.CaptureFixture[str]) -> None:
    """Away from a terminal it is one line on stderr; failures are counted."""
    rows = [{"name": "a"}, {"name": "bad"}, {"name": "c"}]
    done = greet.run_batch(rows, backend=MockBackend(answer), progress_bar=True)
    said = capsys.readouterr()

    assert len(list(done)) == 3
    assert said.out == ""
    assert said.err.startswith("greet: 3 of 3 in ")
    assert said.err.endswith(" s, 1 failed\n")


def test_nothing_is_shown_unasked(capsys: pytest.CaptureFixture[str]) -> None:
    """Without the argument stderr stays empty."""
    states("a")

    assert capsys.readouterr().err == ""


def test_a_terminal_sees_one_line() -> None:
    """It is written over itself, and ends where it is."""
    terminal = Terminal()
    list(shown(states("a", "b"), name="greet", total=2, file=terminal))
    parts = terminal.getvalue().split("\r")

    assert parts[1].startswith("greet: 1 of 2 in ")
    assert parts[-1].startswith("greet: 2 of 2 in ")
    assert terminal.getvalue().count("\n") == 1


def test_a_batch_that_is_left_says_how_far_it_came() -> None:
    """An iterator that is closed early ends the line too."""
    terminal = Terminal()
    iterator = shown(states("a", "b"), name="greet", total=2, file=terminal)
    next(iterator)
    iterator.close()  # type: ignore[attr-defined]

    assert "greet: 1 of 2" in terminal.getvalue().split("\r")[-1]
