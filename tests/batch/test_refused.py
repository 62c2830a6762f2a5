"""Refusal before the first row, and what no row can survive."""

import json
import re
from collections.abc import Callable, Mapping

import pytest

import sglrun as sgl
from sglrun.backends.base import Capabilities, Request, SelectRequest
from sglrun.backends.mock import MockBackend
from sglrun.batch.options import BatchOptions
from sglrun.batch.results import RowResult
from sglrun.batch.rows import Row
from sglrun.batch.runner import BatchRunner
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


def watching(s: sgl.ProgramState, q: str) -> None:
    s += sgl.user(sgl.video(b"x") + q) + sgl.assistant(sgl.gen("a"))


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
        (watching, "takes no videos"),
    ],
)
def test_what_the_backend_cannot_do_is_refused_before_any_request(
    program: Callable[..., object], feature: str
) -> None:
    """The line and the feature are named, and nothing is sent."""
    backend = MockBackend(capabilities=TEXT_ONLY)
    results, stopped = run(program, backend)

    assert results == []
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
        (typed, "regex"),
        (choosing, r"select among \['x', 'y'\]"),
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


@sgl.function
def expert(s: sgl.ProgramState, q: str) -> None:
    s += sgl.user(q) + sgl.assistant("It is " + sgl.gen("a"))


def forking(s: sgl.ProgramState, q: str) -> None:
    s += sgl.user(q)
    branches = s.fork(2)
    branches += sgl.assistant(sgl.gen("a")) + sgl.user("and then?")
    branches += sgl.assistant("Then " + sgl.gen("b"))


def looping(s: sgl.ProgramState, q: str) -> None:
    s += sgl.user(q)
    turns: tuple[object, ...] = (sgl.gen("a"), "Sure: " + sgl.gen("b"))
    for piece in turns:
        s += sgl.assistant(piece) + sgl.user("and then?")


def calling(s: sgl.ProgramState, q: str) -> None:
    s += sgl.user(q) + sgl.assistant(sgl.gen("a"))
    s += sgl.user(str(expert(q)["a"]))


@pytest.mark.parametrize("program", [forking, looping, calling])
def test_what_stands_further_on_is_refused_before_the_first(
    program: Callable[..., object],
) -> None:
    """Branches of forks, loops and other programs are looked at to their ends."""
    backend = MockBackend(capabilities=TEXT_ONLY)
    results, stopped = run(program, backend)

    assert re.search(r"test_refused\.py:\d+: .* text inside assistant\(\)", stopped)
    assert (results, backend.requests, backend.prefixes) == ([], [], [])


WRITTEN: list[str] = []


def telling(s: sgl.ProgramState, q: str) -> None:
    s += sgl.user(q) + sgl.assistant(sgl.gen("a"))
    WRITTEN.append(s["a"])
    s += sgl.user("more") + sgl.assistant("Sure: " + sgl.gen("b"))


def test_a_program_that_changes_something_is_not_run_to_its_end_first() -> None:
    """What its source does not show is refused when rows come to it."""
    WRITTEN.clear()
    backend = MockBackend(lambda _: "word", capabilities=TEXT_ONLY)
    results, _ = run(telling, backend)

    assert WRITTEN == ["word"] * 3
    assert [result.ok for result in results] == [False] * 3


def test_a_run_in_which_no_row_can_be_done_ends() -> None:
    """After some rows that ask for what cannot be done, and none that is well."""
    backend = MockBackend(lambda _: "word", capabilities=TEXT_ONLY)
    options = BatchOptions(num_threads=1)
    results: list[RowResult] = []
    with (
        BatchRunner(sgl.function(telling), backend, options) as runner,
        pytest.raises(RunStoppedError, match="text inside assistant"),
    ):
        results.extend(runner.results(rows(100)))

    assert len(backend.requests) < 20


def branching(s: sgl.ProgramState, q: str, pattern: str | None = None) -> None:
    s += sgl.user(q) + sgl.assistant(sgl.gen("a"))
    if s["a"] == "never":
        s += sgl.assistant(sgl.gen("b", regex=PATTERN))
    s += sgl.assistant(sgl.gen("c", regex=pattern, json_schema=None))
    if q == "q1":
        s += sgl.user("more") + sgl.assistant(sgl.gen("d", regex="x"))
    if q:
        return
    s += sgl.assistant(sgl.gen("e", regex=PATTERN))


def test_what_a_row_may_not_come_to_is_said_and_left_to_the_rows() -> None:
    """A note names the line of each such step; the row that comes to it fails."""
    notes: list[str] = []
    backend = MockBackend(capabilities=TEXT_ONLY)
    options = BatchOptions(num_threads=1)
    with BatchRunner(
        sgl.function(branching), backend, options, on_note=notes.append
    ) as runner:
        results = list(runner.results(rows(3)))

    assert [result.ok for result in results] == [True, False, True]
    assert results[1].error is not None
    assert results[1].error.variable == "d"
    said = [note for note in notes if "a row that comes to it fails" in note]
    assert len(said) == len(set(said)) == 3
    assert all(re.match(r"test_refused\.py:\d+: ", note) for note in said)


def test_the_runs_own_parameters_are_looked_at() -> None:
    """A parameter of the run that the backend cannot honour is refused too."""
    options = BatchOptions(sampling=SamplingParams(seed=1), num_threads=1)
    backend = MockBackend(capabilities=TEXT_ONLY)
    _, stopped = run(telling, backend, options)

    assert "seed=1, which the run sets" in stopped
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


class Compiling(MockBackend):
    """Compiles the patterns that a request stops at."""

    def check(self, request: Request | SelectRequest) -> None:
        """Let *request* pass if it can."""
        assert isinstance(request, Request)
        for pattern in request.sampling.stop_regex:
            re.compile(pattern)


def test_a_stop_pattern_of_unknown_text_is_not_looked_at() -> None:
    """What stands for a row's text in it may be no pattern where the row's is one."""

    def program(s: sgl.ProgramState, q: str) -> None:
        s += q + sgl.gen("a", stop_regex=["b", f"[a-{q[0]}]"])

    results, stopped = run(program, Compiling())

    assert (len(results), stopped) == (3, "")
