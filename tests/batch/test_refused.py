"""Refusal before the first row, and what no row can survive."""

import json
import re
from collections.abc import Callable, Mapping

import pytest

import sglrun as sgl
from sglrun.backends.base import Capabilities, Request
from sglrun.backends.mock import MockBackend
from sglrun.batch.results import RowResult
from sglrun.batch.rows import Row
from sglrun.batch.runner import BatchOptions, BatchRunner
from sglrun.errors import AuthenticationError, RunStoppedError
from sglrun.lang.sampling import SamplingParams

TEXT_ONLY = Capabilities(
    completion=False,
    prefill=False,
    regex=False,
    json_schema=False,
    choice_scores=False,
    select=False,
    prefix_cache=True,
    unsupported_sampling=frozenset({"seed"}),
)
LONG = "A line that is the same for every row, and long enough to be sent first. "


def rows(number: int) -> list[Row]:
    each: list[Mapping[str, object]] = [{"q": f"q{index}"} for index in range(number)]
    return [
        Row(
            index=index,
            line=index + 1,
            content=json.dumps(fields).encode(),
            fields=fields,
            raw={name: json.dumps(value) for name, value in fields.items()},
        )
        for index, fields in enumerate(each)
    ]


def run(
    program: Callable[..., object],
    backend: MockBackend,
    options: BatchOptions | None = None,
) -> tuple[list[RowResult], str]:
    """Return the results of three rows and why the run stopped, if it did."""
    options = options or BatchOptions(num_threads=1)
    results: list[RowResult] = []
    with BatchRunner(sgl.function(program), backend, options) as runner:
        try:
            results.extend(runner.results(rows(3)))
        except RunStoppedError as exc:
            return results, str(exc)
    return results, ""


def turn(*pieces: object) -> Callable[..., None]:
    """Return a program that answers a row with *pieces*."""

    def program(s: sgl.ProgramState, q: str) -> None:
        s += sgl.system(LONG) + sgl.user(q)
        s += sgl.assistant_begin()
        for piece in pieces:
            s += piece
        s += sgl.assistant_end()

    return program


def plain(s: sgl.ProgramState, q: str) -> None:
    s += LONG + q + sgl.gen("a")


def seeing(s: sgl.ProgramState, q: str) -> None:
    s += sgl.user(sgl.image(b"x") + q) + sgl.assistant(sgl.gen("a"))


def reading(s: sgl.ProgramState, q: str) -> None:
    s += sgl.user(sgl.image(b"x") + q)
    s += sgl.assistant("It is " + sgl.gen("a", regex="cat|dog"))


@pytest.mark.parametrize(
    ("program", "feature"),
    [
        (turn(sgl.gen("a", regex="[0-9]+")), r"regex='\[0-9\]\+'"),
        (turn(sgl.gen("a", json_schema={"type": "object"})), "json_schema"),
        (turn(sgl.select("a", ["x", "y"])), r"select among \['x', 'y'\]"),
        (turn(sgl.gen("a", seed=3)), "seed=3"),
        (turn("Sure: ", sgl.gen("a")), r"text inside assistant\(\)"),
        (plain, "a prompt without roles"),
        (seeing, "takes no images"),
        (reading, "takes no images"),
    ],
)
def test_what_the_backend_cannot_do_is_refused_before_any_request(
    program: Callable[..., object], feature: str
) -> None:
    """The line and the feature are named, and nothing is sent."""
    backend = MockBackend(capabilities=TEXT_ONLY)
    results, stopped = run(program, backend)

    assert [result.ok for result in results] in ([], [False])
    assert re.search(feature, stopped)
    assert "test_refused.py:" in stopped
    assert (backend.requests, backend.selections, backend.prefixes) == ([], [], [])


PATTERN = "[0-9]+"


def later(s: sgl.ProgramState, q: str) -> None:
    s += sgl.user(q) + sgl.assistant(sgl.gen("a"))
    if s["a"]:
        s += sgl.user("number?")
    with s.assistant():
        s += sgl.gen("b", regex=PATTERN)


def typed(s: sgl.ProgramState, q: str) -> None:
    s += sgl.user(q) + sgl.assistant(sgl.gen("a"))
    s += sgl.user("number?") + sgl.assistant(sgl.gen_int("b"))


def choosing(s: sgl.ProgramState, q: str) -> None:
    s += sgl.user(q) + sgl.assistant(sgl.gen("a"))
    s += sgl.user("which?") + sgl.assistant(sgl.gen("b", choices=["x", "y"]))


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (later, r"gen\(regex=...\)"),
        (typed, r"gen_int\(\)"),
        (choosing, r"gen\(choices=...\)"),
    ],
)
@pytest.mark.parametrize("precache", [True, False])
def test_a_later_step_is_refused_before_the_first(
    program: Callable[..., object],
    words: str,
    precache: bool,  # noqa: FBT001 - a test's parameter
) -> None:
    """What every row comes to is read in the source, and nothing is sent."""
    backend = MockBackend(capabilities=TEXT_ONLY)
    options = BatchOptions(num_threads=1, precache=precache)
    _, stopped = run(program, backend, options)

    assert re.search(rf"test_refused\.py:\d+: .* cannot do {words}", stopped)
    assert backend.requests == []


def branching(s: sgl.ProgramState, q: str, pattern: str | None = None) -> None:
    s += sgl.user(q) + sgl.assistant(sgl.gen("a"))
    if s["a"] == "never":
        s += sgl.assistant(sgl.gen("b", regex=PATTERN))
    s += sgl.assistant(sgl.gen("c", regex=pattern, json_schema=None))
    s += sgl.gen("d", regex="x") if q == "never" else ""
    if q:
        return
    s += sgl.assistant(sgl.gen("e", regex=PATTERN))


def test_what_a_row_may_not_come_to_is_not_refused() -> None:
    """A step in a branch, or after one that may leave, is left to the rows."""
    results, stopped = run(branching, MockBackend(capabilities=TEXT_ONLY))

    assert (stopped, [result.ok for result in results]) == ("", [True] * 3)


def test_the_runs_own_parameters_are_looked_at() -> None:
    """A parameter of the run that the backend cannot honour is refused too."""
    options = BatchOptions(sampling=SamplingParams(seed=1), num_threads=1)
    backend = MockBackend(capabilities=TEXT_ONLY)
    _, stopped = run(turn(sgl.gen("a")), backend, options)

    assert "seed=1" in stopped
    assert backend.requests == []


@pytest.mark.parametrize("program", [turn(sgl.gen("a")), turn(sgl.gen("a", n=2))])
def test_what_the_backend_can_do_is_asked(program: Callable[..., object]) -> None:
    """Nothing is refused that would not be."""
    results, stopped = run(program, MockBackend(capabilities=TEXT_ONLY))

    assert (stopped, [result.ok for result in results]) == ("", [True] * 3)


def test_what_depends_on_a_row_is_left_to_the_row() -> None:
    """A program that asks for the feature in some rows only is not refused."""

    def program(s: sgl.ProgramState, q: str) -> None:
        s += sgl.user(q)
        pattern = "[0-9]+" if q == "never" else None
        s += sgl.assistant(sgl.gen("a", regex=pattern))

    results, stopped = run(program, MockBackend(capabilities=TEXT_ONLY))

    assert (stopped, [result.ok for result in results]) == ("", [True] * 3)


def test_what_no_row_can_survive_ends_the_run_from_inside_a_fork() -> None:
    """A key that is refused in a branch is told as such, and asked once."""

    def answer(request: Request) -> str:
        del request
        raise AuthenticationError("bad key", http_status=401)

    def program(s: sgl.ProgramState, q: str) -> None:
        forks = s.fork(1)
        forks += q + sgl.gen("a")
        forks.join()

    backend = MockBackend(answer)
    results, stopped = run(program, backend)
    error = results[0].error

    assert "bad key" in stopped
    assert error is not None
    assert (error.type, error.http_status) == ("ForkError", 401)
    assert (error.retryable, len(backend.requests)) == (False, 1)


def test_a_video_ends_the_run() -> None:
    """What the author's line cannot do in any row is no error of each row."""

    def program(s: sgl.ProgramState, q: str) -> None:
        s += q
        s += sgl.video("a.mp4", 4)

    results, stopped = run(program, MockBackend())

    assert "a video ('a.mp4') cannot be sent" in stopped
    assert len(results) == 1
