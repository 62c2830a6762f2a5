"""The runner."""

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Literal

import pytest

from sglrun import ProgramState, function, gen, select
from sglrun.backends.base import Capabilities, Request, Usage
from sglrun.backends.mock import MockBackend
from sglrun.batch.limits import Limits
from sglrun.batch.options import BatchOptions
from sglrun.batch.results import RowResult
from sglrun.batch.retries import RetryPolicy
from sglrun.batch.rows import Row
from sglrun.batch.runner import BatchRunner
from sglrun.errors import (
    AuthenticationError,
    BackendUnavailableError,
    BadRequestError,
    InputError,
    RowError,
    RunInterruptedError,
    RunStoppedError,
)
from sglrun.interpreter.function import Function

WAIT_S = 20
SYSTEM = "A line that is the same for every row, and long enough to be sent first. "


def rows_of(*fields: Mapping[str, object]) -> list[Row]:
    return [
        Row(
            index=index,
            line=index + 1,
            content=json.dumps(each).encode(),
            fields=each,
            raw={name: json.dumps(value) for name, value in each.items()},
        )
        for index, each in enumerate(fields)
    ]


def questions(number: int) -> list[Row]:
    return rows_of(*({"q": f"q{index}"} for index in range(number)))


@function
def prog(s: ProgramState, q: str) -> None:
    s += SYSTEM
    s += q
    s += gen("a")


def run(
    backend: MockBackend,
    rows: Iterable[Row],
    options: BatchOptions | None = None,
    program: Callable[..., object] = prog,
) -> list[RowResult]:
    with BatchRunner(program, backend, options) as runner:  # type: ignore[arg-type]
        return list(runner.results(rows))


def test_each_row_gives_a_result_in_order() -> None:
    """Results come in the order of the rows, with what each cost."""
    results = run(MockBackend("fine"), questions(50), BatchOptions(num_threads=8))

    assert [result.index for result in results] == list(range(50))
    assert all(result.output == {"a": "fine"} for result in results)
    assert results[0].finish_reasons == {"a": "stop"}
    assert results[0].usage.completion_tokens == 1
    assert results[0].attempts == 1


def test_one_row_holds_nobody_back_in_order_of_completion() -> None:
    """A slow row comes last where the order is that of completion."""
    others_are_done = threading.Event()

    def answer(request: Request) -> str:
        if request.prompt.text.endswith("q0"):
            assert others_are_done.wait(WAIT_S)
        return "fine"

    options = BatchOptions(num_threads=4, order="completion", precache=False)
    seen = []
    with BatchRunner(prog, MockBackend(answer), options) as runner:
        for result in runner.results(questions(20)):
            seen.append(result.index)
            if len(seen) == 19:
                others_are_done.set()

    assert seen[-1] == 0
    assert sorted(seen) == list(range(20))


@function
def fails(s: ProgramState, q: str) -> None:
    if q == "BAD":
        raise ValueError("boom")
    s += gen("first")
    s += select("second", choices=["x", "y"])
    s += gen("third")


def test_what_the_author_raises_is_the_rows_error() -> None:
    """A row's error names the class, the message and the author's line."""
    good, bad = run(MockBackend("x"), rows_of({"q": "ok"}, {"q": "BAD"}), program=fails)

    assert good.ok
    assert list(good.output) == ["first", "second", "third"]
    assert bad.error is not None
    assert (bad.error.type, bad.error.message) == ("ValueError", "boom")
    assert str(bad.error.where).startswith("test_runner.py:")


def test_what_the_backend_refuses_is_the_rows_error() -> None:
    """A row's error has the status, the variable, and the output until then."""
    backend = MockBackend(["one", BadRequestError("too long", http_status=400)])
    (result,) = run(backend, questions(1), program=fails)

    assert result.output == {"first": "one", "second": result.output["second"]}
    assert result.error is not None
    assert result.error.variable == "third"
    assert result.error.http_status == 400
    assert not result.error.retryable


def test_only_the_failed_step_is_sent_again() -> None:
    """A step that fails for a moment is tried again; those before it are not."""
    backend = MockBackend(["one", BackendUnavailableError("503"), "three"])
    limits = Limits(max_in_flight=1, policy=RetryPolicy(first_backoff_s=0.0))
    with BatchRunner(fails, backend, limits=limits) as runner:
        (result,) = runner.results(questions(1))

    assert result.ok
    assert result.attempts == 2
    assert len(backend.requests) == 3


@pytest.mark.parametrize(
    ("fields", "told"),
    [({"x": 1}, "missing argument 'q'"), ({}, "missing argument 'q'")],
)
def test_a_missing_argument_is_told_with_its_line(
    fields: dict[str, object], told: str
) -> None:
    """A row without what the program needs costs nothing and names its line."""
    backend = MockBackend()
    (result,) = run(backend, rows_of(fields))

    assert result.error is not None
    assert told in result.error.message
    assert result.error.line == 1
    assert result.attempts == 0
    assert backend.requests == []
    assert backend.prefixes == []


def test_a_line_that_is_no_row_is_a_result() -> None:
    """A bad line gives an error record and the others run."""
    bad = Row(index=0, line=3, content=b"x", error=RowError("in:3:1: not JSON"))
    results = run(MockBackend("fine"), [bad, *rows_of({}, {"q": "a"})[1:]])

    assert [result.ok for result in results] == [False, True]
    assert results[0].error is not None
    assert results[0].error.message == "in:3:1: not JSON"
    assert results[0].error.line == 3


def test_a_return_value_is_output() -> None:
    """What a program returns is in its output, but for the state itself."""

    @function
    def returns(s: ProgramState, q: str) -> object:
        s += gen("a")
        return {"q": q} if q == "q0" else s

    first, second = run(MockBackend("x"), questions(2), program=returns)

    assert first.output == {"a": "x", "return": {"q": "q0"}}
    assert second.output == {"a": "x"}


def test_more_can_be_included() -> None:
    """Arguments, text, messages and meta info are added where asked for."""
    options = BatchOptions(include=frozenset({"arguments", "text", "messages", "meta"}))
    (result,) = run(MockBackend("x"), questions(1), options)

    assert result.extra["arguments"] == {"q": "q0"}
    assert result.extra["text"] == SYSTEM + "q0x"
    assert result.extra["messages"] == []
    assert result.extra["meta"] == {
        "a": {"finish_reason": {"type": "stop"}, "completion_tokens": 1}
    }


def test_a_cut_generation_is_counted_and_can_fail_its_row() -> None:
    """Generations that ended by length are counted, and refused where asked."""
    options = BatchOptions(require_stop=True)
    two_words = MockBackend("one two")

    @function
    def short(s: ProgramState, q: str) -> None:
        s += q + gen("a", max_tokens=1)

    with BatchRunner(short, two_words) as runner:
        (cut,) = runner.results(questions(1))
    (refused,) = run(two_words, questions(1), options, program=short)

    assert cut.ok
    assert runner.summary().cut == 1
    assert refused.error is not None
    assert refused.error.variable == "a"
    assert "'length'" in refused.error.message


def test_the_shared_prefix_is_sent_once_first() -> None:
    """The text that all rows begin with is sent before them, and counted apart."""
    backend = MockBackend("x")
    with BatchRunner(prog, backend) as runner:
        list(runner.results(questions(3)))
    plan = runner.summary().plan

    assert backend.prefixes == [SYSTEM]
    assert plan.text == SYSTEM
    assert plan.usage == Usage(requests=1, prompt_tokens=plan.tokens)
    assert runner.summary().usage.cached_tokens == 3 * plan.tokens
    assert runner.summary().predicted_cached_tokens == 3 * plan.tokens


@function
def scored(s: ProgramState, q: str) -> None:
    s += SYSTEM + q + select("a", choices=["x", "y"])


@function
def explained(s: ProgramState, q: str) -> None:
    scored.func(s, q=q)
    s += gen("why")


@function
def counted(s: ProgramState, q: str) -> None:
    COUNTED.append(q)
    scored.func(s, q=q)


COUNTED: list[object] = []


@pytest.mark.parametrize(
    ("program", "expected"),
    [(scored, True), (explained, False), (counted, False), (prog, False)],
)
def test_a_backend_is_told_what_follows_the_prefix(
    program: Function, *, expected: bool
) -> None:
    """Whether rows only select, where the program could be traced to its end."""
    backend = MockBackend("x")
    with BatchRunner(program, backend) as runner:
        list(runner.results(questions(2)))
    program.run_batch([{"q": "a"}, {"q": "b"}], backend=backend)

    assert backend.prefixes == [SYSTEM] * 2
    assert backend.scored_prefixes == backend.prefixes * expected


@function
def perhaps_explained(s: ProgramState, q: str, why: str = "") -> None:
    scored.func(s, q=q)
    if why:
        s += gen("why")


def without_first(number: int) -> Callable[[Iterable[Row]], Iterable[Row]]:
    return lambda rows: islice(rows, number, None)


NO_ROW: dict[str, object] = {}
ASKED, EXPLAINED = {"q": "a"}, {"q": "b", "why": "yes"}


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([ASKED, EXPLAINED], True),
        ([EXPLAINED, ASKED], False),
        ([NO_ROW, EXPLAINED, ASKED], False),
    ],
)
def test_a_resumed_run_is_planned_by_the_first_row_of_all(
    rows: list[dict[str, object]], *, expected: bool
) -> None:
    """Which rows are finished changes nothing of what a backend is told before."""
    told = []
    for finished in range(len(rows)):
        backend = MockBackend("x")
        with BatchRunner(perhaps_explained, backend) as runner:
            list(runner.batches(rows_of(*rows), remaining=without_first(finished)))
        told.append(backend.scored_prefixes)

    assert told == [[SYSTEM] * expected] * len(rows)


def test_a_run_without_remaining_rows_plans_nothing() -> None:
    """No prefix is sent where all rows are finished."""
    backend = MockBackend("x")
    with BatchRunner(prog, backend) as runner:
        ran = list(runner.batches(questions(3), remaining=without_first(3)))

    assert ran == []
    assert (backend.prefixes, backend.requests) == ([], [])


class Wordy(MockBackend):
    """A backend whose tokens are single characters."""

    def count_tokens(self, text: str) -> int:
        """Return the number of characters."""
        return len(text)


@pytest.mark.parametrize(("characters", "sent"), [(16, 0), (17, 1)])
def test_a_prefix_short_in_characters_may_be_long_in_tokens(
    characters: int, sent: int
) -> None:
    """A prefix is worth its request by its characters or by its tokens."""

    @function
    def short(s: ProgramState, q: str) -> None:
        s += "字" * characters + q + gen("a")

    backend = Wordy("x")
    with BatchRunner(short, backend) as runner:
        list(runner.results(questions(2)))

    assert len(backend.prefixes) == sent


class Unwilling(MockBackend):
    """A backend that says it can hold a prefix, and then refuses."""

    def cache_prefix(self, prompt: object, *, only_scored: bool = False) -> Usage:
        """Refuse."""
        del only_scored
        raise BackendUnavailableError(f"500 for {prompt.__class__.__name__}")

    def count_tokens(self, text: str) -> int:
        """Refuse."""
        raise BackendUnavailableError(text)

    def _usage(self, *_: object) -> Usage:
        return Usage(requests=1)


def test_a_refused_prefix_is_a_note() -> None:
    """A backend that does not take the prefix stops nothing."""
    notes: list[str] = []
    with BatchRunner(prog, Unwilling("x"), on_note=notes.append) as runner:
        results = list(runner.results(questions(2)))

    assert all(result.ok for result in results)
    assert notes == ["the shared prefix is not sent first: 500 for Prompt"]
    assert runner.summary().plan.tokens == -(-len(SYSTEM) // 4)


@pytest.mark.parametrize("precache", [True, False])
def test_a_program_without_a_prefix_is_told(precache: bool) -> None:  # noqa: FBT001
    """Where no text is shared, a note says what comes first; nothing is sent."""

    @function
    def bare(s: ProgramState, q: str) -> None:
        s += q + gen("a")

    notes: list[str] = []
    backend = MockBackend("x")
    options = BatchOptions(precache=precache)
    with BatchRunner(bare, backend, options, on_note=notes.append) as runner:
        list(runner.results(questions(2)))

    assert backend.prefixes == []
    assert ["0 characters come before argument 'q'" in note for note in notes] == [
        True
    ] * precache


def test_a_backend_that_holds_no_prefix_gets_none() -> None:
    """Nothing is sent first to a backend that cannot use it."""
    backend = MockBackend("x", capabilities=Capabilities(prefix_cache=False))
    run(backend, questions(2))

    assert backend.prefixes == []


def test_a_refused_key_ends_the_run_early() -> None:
    """After a refused key only what was under way is sent, and the run says why."""
    backend = MockBackend(lambda _: AuthenticationError("401: wrong key"))
    options = BatchOptions(num_threads=4, precache=False)
    results: list[RowResult] = []
    runner = BatchRunner(prog, backend, options)
    with runner, pytest.raises(RunStoppedError, match="401: wrong key") as caught:
        results.extend(runner.results(questions(1000)))

    assert len(backend.requests) <= 4
    assert all(not result.ok for result in results)
    assert len(results) < 1000
    assert isinstance(caught.value.__cause__, AuthenticationError)
    assert runner.summary().exit_code == 3


@pytest.mark.parametrize(
    "options",
    [
        BatchOptions(max_errors=5, num_threads=2, precache=False),
        BatchOptions(max_error_share=0.5, num_threads=2, precache=False),
    ],
)
def test_too_many_errors_end_the_run(options: BatchOptions) -> None:
    """More failed rows than allowed end the run, soon."""
    backend = MockBackend(lambda _: BadRequestError("400"))
    results: list[RowResult] = []
    runner = BatchRunner(prog, backend, options)
    with runner, pytest.raises(RunStoppedError, match="rows failed"):
        results.extend(runner.results(questions(10_000)))

    assert 5 < len(results) < 10_000
    assert runner.summary().failed == len(results)


@pytest.mark.parametrize(
    "options",
    [BatchOptions(max_errors=10), BatchOptions(max_error_share=0.5)],
)
def test_as_many_errors_as_allowed_end_nothing(options: BatchOptions) -> None:
    """A run goes on while the failed rows are no more than allowed."""
    answers = [BadRequestError("400")] * 10 + ["x"] * 140
    backend = MockBackend(answers)

    assert len(run(backend, questions(150), options)) == 150


class ToldLimits(Limits):
    """Limits that tell when a run has begun to end."""

    def __init__(self) -> None:
        """Begin without a limit."""
        super().__init__(max_in_flight=1000)
        self.draining = threading.Event()

    def drain(self) -> None:
        """Tell."""
        super().drain()
        self.draining.set()


def test_a_stop_waits_for_rows_in_flight() -> None:
    """After a stop no more rows are taken; those in flight give results first."""
    begun, may_end = threading.Event(), threading.Event()

    def answer(_: Request) -> str:
        begun.set()
        assert may_end.wait(WAIT_S)
        return "fine"

    taken = []

    def source() -> Iterator[Row]:
        for row in questions(100):
            taken.append(row.index)
            yield row

    options = BatchOptions(num_threads=3, precache=False)
    limits = ToldLimits()
    runner = BatchRunner(prog, MockBackend(answer), options, limits=limits)
    results: list[RowResult] = []

    def stop() -> None:
        assert begun.wait(WAIT_S)
        runner.stop(RunInterruptedError("SIGTERM", signal_number=15))
        assert limits.draining.wait(WAIT_S)
        may_end.set()

    stopper = threading.Thread(target=stop)
    stopper.start()
    with runner, pytest.raises(RunInterruptedError) as caught:
        results.extend(runner.results(source()))
    stopper.join(WAIT_S)

    assert [result.ok for result in results] == [True] * len(taken)
    assert caught.value.exit_code == 143
    assert runner.summary().exit_code == 143
    assert len(taken) <= 4


@pytest.mark.parametrize("again", [True, False])
def test_a_stop_does_not_wait_for_ever(again: bool) -> None:  # noqa: FBT001
    """When the grace is over, or at a second stop, rows in flight are left."""
    begun, never = threading.Event(), threading.Event()

    def answer(_: Request) -> str:
        begun.set()
        never.wait(WAIT_S)
        return "late"

    options = BatchOptions(num_threads=2, precache=False)
    runner = BatchRunner(prog, MockBackend(answer), options)

    def stop() -> None:
        assert begun.wait(WAIT_S)
        runner.stop(RunInterruptedError("SIGINT"), grace_s=None if again else 0.0)
        if again:
            runner.stop(RunInterruptedError("SIGINT"))

    stopper = threading.Thread(target=stop)
    stopper.start()
    results: list[RowResult] = []
    with runner, pytest.raises(RunInterruptedError, match="SIGINT"):
        results.extend(runner.results(questions(10)))
    never.set()
    stopper.join(WAIT_S)

    assert results == []


@pytest.mark.parametrize("schedule", ["input", "prefix"])
def test_rows_behind_one_that_hangs_are_not_lost(
    schedule: Literal["input", "prefix"],
) -> None:
    """What waited for its turn when the grace was over is given, in order, counted."""
    last_begun, released = threading.Event(), threading.Event()

    def answer(request: Request) -> str:
        said = request.prompt.text.removeprefix(SYSTEM)
        if said == "z":  # the other thread hangs: this one has done those before
            last_begun.set()
        if said in {"aa", "z"}:
            released.wait(WAIT_S)
        return "fine"

    options = BatchOptions(num_threads=2, precache=False, schedule=schedule)
    runner = BatchRunner(prog, MockBackend(answer), options)

    def stop() -> None:
        assert last_begun.wait(WAIT_S)
        runner.stop(RunInterruptedError("SIGTERM", signal_number=15), grace_s=0.0)

    stopper = threading.Thread(target=stop)
    stopper.start()
    rows = rows_of(*({"q": said} for said in ("c", "aa", "b", "a", "z")))
    results: list[RowResult] = []
    with runner, pytest.raises(RunInterruptedError, match="SIGTERM"):
        results.extend(runner.results(rows))
    released.set()
    stopper.join(WAIT_S)

    assert [(result.index, result.ok) for result in results] == [
        (0, True),
        (2, True),
        (3, True),
    ]
    assert (runner.summary().ok, runner.summary().failed) == (3, 0)


@pytest.mark.parametrize("schedule", ["input", "prefix"])
def test_an_input_that_breaks_off_comes_after_the_results(
    schedule: Literal["input", "prefix"],
) -> None:
    """Rows that were read give results; then the run has ended early."""

    def source() -> Iterator[Row]:
        yield from questions(5)
        raise InputError("in.jsonl:6: cannot read on", line=6)

    results: list[RowResult] = []
    runner = BatchRunner(prog, MockBackend("x"), BatchOptions(schedule=schedule))
    with runner, pytest.raises(RunStoppedError, match=r"cannot read on.* mend"):
        results.extend(runner.results(source()))

    assert [result.index for result in results] == list(range(5))
    assert runner.summary().exit_code == 3


@pytest.mark.parametrize("line", [None, 1])
def test_an_input_that_cannot_be_read_at_all(line: int | None) -> None:
    """Where no row came, the run could not begin."""

    def source() -> Iterator[Row]:
        yield from ()
        raise InputError("in.jsonl: what is this", line=line)

    with (
        BatchRunner(prog, MockBackend("x")) as runner,
        pytest.raises(InputError, match="what is this"),
    ):
        list(runner.results(source()))


def test_leaving_early_lets_go() -> None:
    """Who stops reading waits for no row in flight, and no more are sent."""
    never = threading.Event()
    late: list[str] = []

    def answer(request: Request) -> str:
        if not request.prompt.text.endswith("q0"):
            never.wait(WAIT_S)
            late.append(request.prompt.text)
        return "x"

    options = BatchOptions(num_threads=4, precache=False)
    with BatchRunner(prog, MockBackend(answer), options) as runner:
        first = next(runner.results(questions(100)))

    assert first.index == 0
    assert late == []
    never.set()


def test_no_rows_are_no_results() -> None:
    """An empty input is a run that succeeded."""
    with BatchRunner(prog, MockBackend("x")) as runner:
        results = list(runner.results([]))

    assert results == []
    assert runner.summary().exit_code == 0


def test_a_row_out_of_time_is_an_error() -> None:
    """A row whose time is over begins no request."""
    options = BatchOptions(row_timeout_s=0.0)
    (result,) = run(MockBackend("x"), questions(1), options)

    assert result.error is not None
    assert result.error.type == "BackendTimeoutError"
