"""``sglrun check``."""

import re
from pathlib import Path

import pytest

from tests.cli.process import sglrun

PROGRAM = """
from typing import Literal

import sglrun as sgl

@sgl.function
def answer(
    s,
    q: str,
    stars: int = 3,
    tags: list[str] | None = None,
    tone: Literal["dry", "warm"] = "dry",
    weights: dict[str, float] = {},
):
    s += q + sgl.gen("a")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a program."""
    (tmp_path / "p.py").write_text(PROGRAM, "utf-8")
    return tmp_path


def complaints(folder: Path, *rows: str) -> tuple[int, list[str]]:
    """Return the exit code and what is said of *rows*."""
    text = "".join(f"{row}\n" for row in rows)
    run = sglrun("check", "p.py", "-", folder=folder, stdin=text)
    return run.returncode, run.stdout.splitlines()


def test_rows_that_fit_say_nothing(folder: Path) -> None:
    """A row whose arguments are there and of their types can be run."""
    code, lines = complaints(
        folder,
        '{"q": "a", "id": 1, "other": []}',
        '{"q": "b", "stars": 4, "tags": ["x"], "tone": "warm", "weights": {"a": 1}}',
        '{"q": "c", "tags": null}',
    )

    assert (code, lines) == (0, [])


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ('{"q": ', "not JSON"),
        ("[1]", "a row is a JSON object"),
        ("{}", "missing argument 'q'"),
        ('{"q": 1}', "'q' is 1, not str"),
        ('{"q": "a", "stars": 1.5}', "'stars' is 1.5, not int"),
        ('{"q": "a", "stars": true}', "'stars' is True, not int"),
        ('{"q": "a", "tags": [1]}', "'tags' is [1], not list[str] | None"),
        ('{"q": "a", "tone": "loud"}', "'tone' is 'loud', not typing.Literal"),
        ('{"q": "a", "weights": {"a": "b"}}', "'weights' is {'a': 'b'}, not dict"),
    ],
)
def test_a_row_that_would_fail_is_named(folder: Path, row: str, said: str) -> None:
    """The line, the argument and the value are told, and the exit code is 1."""
    code, lines = complaints(folder, '{"q": "fine"}', row)

    assert code == 1
    assert len(lines) == 1
    assert re.match(r"stdin:2:(\d+:)? ", lines[0])
    assert said in lines[0]


def test_a_repeated_id_is_a_warning(folder: Path) -> None:
    """Rows of one id run both; both lines are told."""
    row = '{"q": "a", "id": "x"}'

    assert complaints(folder, row, "", row) == (
        0,
        ['stdin:3: warning: the id "x" is that of line 1 too'],
    )
