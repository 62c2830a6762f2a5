"""The programs that come with sglrun, over their sample rows."""

import ast
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from sglrun.backends import create_backend
from sglrun.backends.base import Backend, BackendOptions
from sglrun.backends.mock import MockBackend
from sglrun.errors import ConfigError, ModelError
from sglrun.interpreter.loader import load_program
from sglrun.interpreter.program import Program
from sglrun.interpreter.run import run_program
from sglrun.interpreter.state import ProgramState
from sglrun.interpreter.tracing.tracer import trace_prefix
from sglrun.lang.chat_template import get_chat_template

ROOT = Path(__file__).parent.parent.parent
NAMES = sorted(path.stem for path in (ROOT / "programs").glob("*.py"))

# What each program writes, in this order; a numbered variable by its first number.
VARIABLES = {
    "chat_turns": ("reply_1",),
    "essay_judge": ("claim", "remark", "score", "advice", "verdict"),
    "extract_contact": ("contact",),
    "few_shot_qa": ("answer",),
    "sentiment": ("feeling", "sentiment", "stars"),
    "skeleton_of_thought": ("skeleton", "paragraph", "answer"),
    "ticket_triage": ("team", "urgency", "reply"),
}

Row = Mapping[str, Any]


def path_of(name: str) -> Path:
    return ROOT / "programs" / f"{name}.py"


def docstring_of(name: str) -> str:
    return ast.get_docstring(ast.parse(path_of(name).read_text("utf-8"))) or ""


def program_of(name: str) -> Program:
    return load_program(str(path_of(name)))


def rows_of(name: str) -> list[Row]:
    text = (ROOT / "sample_data" / f"{name}.jsonl").read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


def arguments_of(program: Program, row: Row) -> dict[str, Any]:
    return {key: value for key, value in row.items() if program.takes(key)}


def run(program: Program, row: Row, backend: Backend) -> ProgramState:
    arguments = arguments_of(program, row)
    return run_program(program, arguments, backend=backend, inline=True)


def written(state: ProgramState) -> tuple[str, ...]:
    names = (re.sub(r"_\d+$", "_1", str(name)) for name in state.variables())
    return tuple(dict.fromkeys(names))


def chat_mock() -> MockBackend:
    return MockBackend(chat_template=get_chat_template("chatml"))


@pytest.fixture(scope="module")
def engine() -> Iterator[Backend]:
    """The embedded engine with the bundled model; skips where it is not installed."""
    try:
        backend = create_backend("local", BackendOptions())
    except (ConfigError, ModelError) as exc:
        pytest.skip(str(exc))
    yield backend
    backend.close()


def test_every_program_is_known_here() -> None:
    """Each program has sample rows and a line in the table, and the other way round."""
    sampled = sorted(path.stem for path in (ROOT / "sample_data").glob("*.jsonl"))

    assert NAMES == sampled == sorted(VARIABLES)


@pytest.mark.parametrize("name", NAMES)
def test_docstring_says_how_to_run(name: str) -> None:
    """A program's docstring has the command, its arguments and what comes out."""
    said, _, out = docstring_of(name).partition("Out come")
    arguments = set(program_of(name).parameters)
    command = f"    sglrun batch programs/{name}.py sample_data/{name}.jsonl"

    assert command in out.splitlines()
    assert arguments <= set(re.findall(r"``(\w+)``", said))
    assert set(VARIABLES[name]) <= set(re.findall(r"``(\w+)``", out))


@pytest.mark.parametrize("name", NAMES)
def test_programs_use_the_public_language_only(name: str) -> None:
    """A program imports sglrun itself and none of its modules."""
    tree = ast.parse(path_of(name).read_text("utf-8"))
    imported = {
        module
        for node in ast.walk(tree)
        for module in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [str(node.module)]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }

    assert {m for m in imported if m.startswith("sglrun")} == {"sglrun"}


@pytest.mark.parametrize("name", NAMES)
def test_rows_have_the_arguments(name: str) -> None:
    """Every sample row has an id of its own, the arguments, and text in them."""
    program, rows = program_of(name), rows_of(name)
    for row in rows:
        program.check_arguments(arguments_of(program, row))

    assert 6 <= len(rows) <= 12
    assert len({row["id"] for row in rows}) == len(rows)
    assert all(all(arguments_of(program, row).values()) for row in rows)


@pytest.mark.parametrize("name", NAMES)
def test_every_row_runs_on_the_mock(name: str) -> None:
    """Over its sample rows a program never fails and writes what it documents."""
    program = program_of(name)
    states = [run(program, row, chat_mock()) for row in rows_of(name)]

    assert [state.failure for state in states] == [None] * len(states)
    assert {written(state) for state in states} == {VARIABLES[name]}


@pytest.mark.parametrize("name", NAMES)
def test_every_generation_is_bounded(name: str) -> None:
    """A program sets a limit and the temperature of each of its generations."""
    program, backend = program_of(name), chat_mock()
    run(program, rows_of(name)[0], backend)

    assert backend.requests
    assert all(r.sampling.max_new_tokens < 200 for r in backend.requests)
    assert all(r.sampling.temperature == 0 for r in backend.requests)


@pytest.mark.parametrize("name", NAMES)
def test_rows_share_the_traced_prefix(name: str) -> None:
    """What tracing finds is more than markup, and every prompt begins with it."""
    program, rows, backend = program_of(name), rows_of(name), chat_mock()
    given = {key for row in rows for key in arguments_of(program, row)}
    traced = trace_prefix(program, template=backend.chat_template, given=given)
    for row in rows:
        run(program, row, backend)
    prompts = [request.prompt.text for request in backend.requests]
    prompts += [selection.prompt.text for selection in backend.selections]

    assert len(traced.prompt.text) > 200
    assert all(prompt.startswith(traced.prompt.text) for prompt in prompts)


@pytest.mark.engine
@pytest.mark.parametrize("name", NAMES)
def test_a_row_runs_on_the_embedded_engine(name: str, engine: Backend) -> None:
    """With the bundled model a program succeeds and writes what it documents."""
    state = run(program_of(name), rows_of(name)[0], engine)

    assert state.failure is None
    assert written(state) == VARIABLES[name]
