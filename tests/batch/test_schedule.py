"""The schedule: a permutation that puts shared prompts together, and back."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sglrun as sgl
from sglrun.backends.mock import MockBackend
from sglrun.batch.options import BatchOptions
from sglrun.batch.results import RowResult
from sglrun.batch.rows import Row
from sglrun.batch.runner import BatchRunner
from sglrun.batch.schedule import (
    Schedule,
    prompt_key,
    shared_beginnings,
    shared_length,
)
from sglrun.errors import InputError
from sglrun.interpreter.tracing.tracer import trace_prefix
from sglrun.lang.chat_template import DEFAULT_TEMPLATE

TEXTS = st.lists(st.text("ab", max_size=6), max_size=30)


def row(index: int, **fields: object) -> Row:
    raw = {name: json.dumps(value) for name, value in fields.items()}
    content = json.dumps(fields).encode()
    return Row(index=index, line=index + 1, content=content, fields=fields, raw=raw)


def rows(texts: list[str]) -> list[Row]:
    return [row(index, q=text) for index, text in enumerate(texts)]


def text_of(each: Row) -> str:
    return str(each.fields["q"])


def brute_tree_length(texts: list[str]) -> int:
    return len({text[:end] for text in texts for end in range(1, len(text) + 1)})


@given(TEXTS, st.integers(1, 8), st.integers(1, 60))
def test_a_schedule_is_a_permutation(
    texts: list[str], window: int, window_bytes: int
) -> None:
    """Every row is scheduled once, in windows of whatever size."""
    schedule = Schedule(
        rows(texts), text_of, window_rows=window, window_bytes=window_bytes
    )

    assert sorted(each.index for each in schedule) == list(range(len(texts)))


def test_a_window_is_bounded_by_its_keys() -> None:
    """A prompt that is made long by the program counts, not only the row's line."""
    schedule = Schedule(
        rows(["b", "a", "d", "c"]), lambda each: text_of(each) * 100, window_bytes=200
    )

    assert [text_of(each) for each in schedule] == ["a", "b", "d", "c"]


@given(TEXTS)
def test_one_window_reads_no_more_than_the_tree(texts: list[str]) -> None:
    """Within a window, what forerunners do not have is exactly the tree."""
    ordered = [text_of(each) for each in Schedule(rows(texts), text_of)]
    read = sum(map(len, ordered)) - shared_length(ordered)

    spared = sum(map(len, shared_beginnings(texts)))

    assert read == brute_tree_length(texts)
    assert read + spared == sum(map(len, texts))


@given(TEXTS, st.integers(1, 8))
def test_no_row_is_farther_away_than_a_window(texts: list[str], window: int) -> None:
    """A row stays in its window, so memory is bounded."""
    schedule = Schedule(rows(texts), text_of, window_rows=window)

    assert all(
        place // window == each.index // window for place, each in enumerate(schedule)
    )


def test_windows_meet_at_the_same_part_of_the_tree() -> None:
    """The next window goes the other way, beginning where the last one ended."""
    schedule = Schedule(rows(["b", "a", "c", "c", "a", "b"]), text_of, window_rows=3)

    assert [text_of(each) for each in schedule] == ["a", "b", "c", "c", "b", "a"]


@given(TEXTS, st.integers(1, 8), st.integers(1, 5))
def test_results_come_back_in_the_order_of_the_input(
    texts: list[str], window: int, size: int
) -> None:
    """Results are put back in order, and never wait for more than a window."""
    schedule = Schedule(rows(texts), text_of, window_rows=window)
    results = [RowResult(row=each) for each in schedule]
    taken = 0

    def batches() -> Any:
        nonlocal taken
        for at in range(0, len(results), size):
            taken = min(at + size, len(results))
            yield results[at : at + size]

    came: list[int] = []
    for batch in schedule.restored(batches()):
        came += [result.index for result in batch]
        assert taken - len(came) < window

    assert came == list(range(len(texts)))


def test_results_after_a_gap_come_at_the_end() -> None:
    """When a run ends early, what is finished is still given, in order."""
    schedule = Schedule(rows(["b", "c", "a", "d"]), text_of)
    taken = list(schedule)
    finished = [[RowResult(row=each)] for each in taken if each.index != 1]
    came = [result.index for batch in schedule.restored(finished) for result in batch]

    assert came == [0, 2, 3]


def test_an_error_comes_after_what_is_finished() -> None:
    """What the results raise at their end is raised after those that waited."""
    schedule = Schedule(rows(["b", "a"]), text_of)

    def batches() -> Any:
        yield [RowResult(row=next(iter(schedule)))]
        raise InputError("torn")

    came = schedule.restored(batches())
    first = next(came)

    assert [result.index for result in first] == [1]
    with pytest.raises(InputError, match="torn"):
        next(came)


def test_the_key_is_the_first_prompt() -> None:
    """A row's key is its first prompt from the first argument on, as far as known."""

    @sgl.function
    def ask(s: Any, document: str, question: str, lang: str = "en") -> None:
        s += sgl.system("You answer. " * 100)
        s += sgl.user(f"[{lang}] {document.strip()}\nQ: {question[0]} " + question)
        s += sgl.assistant(sgl.gen("answer"))

    known = trace_prefix(
        ask, template=DEFAULT_TEMPLATE, given=["document", "question"]
    ).known
    key = prompt_key(ask, lambda: known)

    assert key(row(0, document=" D ", question="why")) == ("D\nQ: w why\nASSISTANT:")
    assert key(row(1, document=" D ", question="")) == "D\nQ: "
    assert key(row(2, document=7, question="why")) == ""
    assert key(Row(index=3, line=4, content=b"bad")) == ""


@given(st.lists(st.text("ab", max_size=8), min_size=2, max_size=8))
def test_shared_length_counts_what_forerunners_have(texts: list[str]) -> None:
    """Characters in common with the prompt before are counted, by definition."""
    expected = 0
    for one, other in pairwise(texts):
        common = 0
        while common < min(len(one), len(other)) and one[common] == other[common]:
            common += 1
        expected += common

    assert shared_length(texts) == expected


@pytest.mark.parametrize("precache", [True, False])
def test_a_run_follows_the_schedule(precache: bool) -> None:  # noqa: FBT001
    """Rows with the same document run together; results keep the input's order."""
    backend = MockBackend()

    @sgl.function
    def ask(s: Any, document: str, question: str) -> None:
        s += f"{document}\nQ: {question}\nA:" + sgl.gen("answer")

    given_rows = [
        row(index, document=f"document {index % 3}", question=f"{index}?")
        for index in range(12)
    ]
    options = BatchOptions(num_threads=1, schedule="prefix", precache=precache)
    came: list[int] = []
    with BatchRunner(
        ask,
        backend,
        options,
        on_results=lambda results: came.extend(result.index for result in results),
    ) as runner:
        indexes = [result.index for result in runner.results(given_rows)]
    documents = [request.prompt.text[:10] for request in backend.requests]

    assert indexes == list(range(12))
    assert documents == sorted(documents)
    assert [index % 3 for index in came] == sorted(index % 3 for index in indexes)
