"""Failures: the author's line behind an error."""

import json
from pathlib import Path

import pytest

from sglrun.backends.mock import MockBackend
from sglrun.interpreter import failure
from sglrun.interpreter.executor import Settings, StreamExecutor
from sglrun.interpreter.failure import calling_place, raising_place
from sglrun.interpreter.state import ProgramState
from sglrun.lang.prompt import Prompt
from sglrun.lang.sampling import SamplingParams

HERE = Path(__file__).name


def caught(call: object) -> BaseException:
    with pytest.raises(BaseException) as info:  # noqa: PT011 - any
        call()  # type: ignore[operator]
    return info.value


def broken_json() -> object:
    return json.loads("{")


def test_the_line_that_raised_is_the_programs() -> None:
    """An error inside Python's own parts is laid at the program's line."""
    place = raising_place(caught(broken_json), __file__)
    line = (
        Path(__file__)
        .read_text("utf-8")
        .splitlines()
        .index('    return json.loads("{")')
    )

    assert place == f"{HERE}:{line + 1}"


def test_a_program_that_is_not_on_the_way_is_not_named() -> None:
    """Without a line of the program, the innermost line outside sglrun is told."""
    place = raising_place(caught(broken_json), "elsewhere.py")

    assert place is not None
    assert place.startswith("decoder.py:")


def test_a_syntax_error_is_where_it_stands() -> None:
    """A file that cannot be compiled is named with the line that is wrong."""
    error = caught(lambda: compile("x = 1\ny = (", "/p/prog.py", "exec"))

    assert raising_place(error, "/p/prog.py") == "prog.py:2"


def test_an_error_that_was_never_raised_has_no_place() -> None:
    """Where nothing is known, nothing is told."""
    assert raising_place(ValueError(), "prog.py") is None


def test_the_calling_line_is_the_authors() -> None:
    """The place of a call is the innermost line that is not sglrun's."""
    place = calling_place()

    assert place is not None
    assert place.startswith(f"{HERE}:")


def test_a_block_is_laid_at_its_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn that is opened by ``with`` begins and ends at lines of the author's."""
    settings = Settings(backend=MockBackend(), sampling=SamplingParams())
    s = ProgramState(StreamExecutor(settings, Prompt()))
    places: list[str] = []
    monkeypatch.setattr(
        s.stream_executor, "submit", lambda _, where: places.append(where)
    )
    with s.user():
        pass

    assert len(places) == 2
    assert all(place.startswith(f"{HERE}:") for place in places)


def test_a_package_that_is_called_alike_is_the_authors() -> None:
    """Code beside sglrun whose folder only begins like it belongs to the author."""
    package = str(Path(failure.__file__).parent.parent)

    assert failure._is_authors(f"{package}_programs/triage.py")
    assert not failure._is_authors(f"{package}/interpreter/state.py")
