"""The estimate: what a run would ask, against what it asks."""

import json
from typing import Any

import pytest

import sglrun as sgl
from sglrun.backends.mock import MockBackend
from sglrun.batch import estimate as estimates
from sglrun.batch.estimate import Estimate, estimate
from sglrun.batch.options import BatchOptions
from sglrun.batch.rows import Row
from sglrun.batch.runner import BatchRunner
from sglrun.errors import RowError
from sglrun.interpreter.program import Program
from sglrun.lang.chat_template import DEFAULT_TEMPLATE
from sglrun.lang.sampling import SamplingParams

INTRO = "You are a patient teacher who answers in a few words. "


def row(index: int, **fields: object) -> Row:
    raw = {name: json.dumps(value) for name, value in fields.items()}
    return Row(index=index, line=index + 1, content=b"{}", fields=fields, raw=raw)


def estimated(program: Program, rows: list[Row], **sampling: Any) -> Estimate:
    return estimate(
        program,
        rows,
        template=DEFAULT_TEMPLATE,
        sampling=SamplingParams(**sampling),
        count=MockBackend().count_tokens,
    )


@sgl.function
def teach(s: Any, questions: list[str]) -> None:
    s += INTRO
    for number, question in enumerate(questions):
        s += f"Q: {question} A: "
        s += sgl.gen(f"a{number}", max_tokens=5)
    branches = s.fork(2)
    branches += "Mark: " + sgl.select("mark", ["good", "bad"])
    branches.join()


ROWS = [row(at, questions=["Why is that so?"] * (at + 1)) for at in range(3)]


def test_a_run_asks_what_was_estimated() -> None:
    """Requests are exact, tokens are bounds, and what is saved is in between."""
    found = estimated(teach, ROWS)
    with BatchRunner(teach, MockBackend(), BatchOptions(precache=False)) as runner:
        list(runner.results(ROWS))
        usage = runner.summary().usage

    assert found.requests == usage.requests == 1 + 2 + 3 + 3 * 2
    assert usage.prompt_tokens <= found.prompt_tokens
    assert usage.completion_tokens <= found.completion_tokens == (1 + 2 + 3) * 5
    assert 0 < found.prefix_tokens < found.shared_tokens < found.prompt_tokens
    assert found.decided_by is None


def test_a_prefix_that_is_sent_is_counted() -> None:
    """With the shared prefix sent first, usage is what a run has, that request too."""
    rows = [row(at, q=f"{at}?") for at in range(4)]

    @sgl.function
    def ask(s: Any, q: str) -> None:
        s += INTRO * 3 + q + sgl.gen("a", max_tokens=2)

    found = estimate(
        ask,
        rows,
        template=DEFAULT_TEMPLATE,
        sampling=SamplingParams(),
        count=MockBackend().count_tokens,
        sends_prefix=True,
    )
    with BatchRunner(ask, MockBackend()) as runner:
        list(runner.results(rows))
        summary = runner.summary()
    sent = summary.plan.usage

    assert sent is not None
    assert found.sent_tokens == sent.prompt_tokens
    assert found.usage == summary.usage + sent
    assert found.prefix_tokens == summary.saved_tokens


def test_options_are_read_once_each() -> None:
    """A choice reads its options, and the longest stands in what comes after."""

    @sgl.function
    def ask(s: Any, q: str) -> None:
        s += "x " + sgl.select("c", ["a b c", "d"])
        s += " y" + sgl.gen("a", max_tokens=2)

    found = estimated(ask, [row(0, q="x")])

    assert found.prompt_tokens == 1 + (3 + 1) + (2 + 3)


def test_run_parameters_bound_the_tokens() -> None:
    """A generation without a bound of its own takes the run's, for every sample."""

    @sgl.function
    def ask(s: Any, q: str) -> None:
        s += q + sgl.gen("a", n=2)

    found = estimated(ask, [row(0, q="x")], max_new_tokens=7)

    assert found.completion_tokens == 14


def test_more_rows_are_taken_to_be_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the rows that are traced, numbers grow in proportion; bad ones not."""
    monkeypatch.setattr(estimates, "TRACED_ROWS", 4)
    bad = Row(index=1, line=2, content=b"?", error=RowError("no JSON"))
    rows = [row(0, questions=["a"]), bad, row(2, questions=["a"]), row(3, other=1)]
    found = estimated(teach, [*rows, *rows])

    assert (found.rows, found.traced_rows, found.bad_rows) == (8, 2, 2)
    assert found.requests == 4 * 3


def test_a_program_that_decides_is_named() -> None:
    """Where an answer decides what is asked, the line is told."""

    @sgl.function
    def ask(s: Any, q: str) -> None:
        s += q + sgl.gen("a")
        if s["a"] == "more":
            s += sgl.gen("b")

    found = estimated(ask, [row(0, q="x")])

    assert str(found.decided_by).startswith("test_estimate.py:")


def test_a_choice_is_looked_up() -> None:
    """A table with an entry for each option is no end: what comes after is counted."""
    labels = {"good": 1, "bad": 0}

    @sgl.function
    def ask(s: Any, q: str) -> None:
        s += q + sgl.select("mark", labels)
        s["label"] = labels[s["mark"]]
        s += sgl.gen("why", max_tokens=3)

    found = estimated(ask, [row(0, q="x")])

    assert (found.requests, found.completion_tokens) == (2, 3)


def test_no_rows_ask_nothing() -> None:
    """An empty input costs nothing."""
    assert estimated(teach, []).usage.prompt_tokens == 0
