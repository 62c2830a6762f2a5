"""Recorded results: what a run has written is read back, and nothing else is."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglrun.backends.base import Usage
from sglrun.batch.digests import digest
from sglrun.batch.journal import Entry, pack
from sglrun.batch.recorded import RecordedReader, parse_result
from sglrun.batch.records import render_record
from sglrun.batch.results import ErrorInfo, Layout, RowResult
from sglrun.batch.rows import Row

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
OUTPUTS = st.dictionaries(st.text().filter(lambda name: name != "_sglrun"), VALUES)


def result(index: int = 0, **facts: Any) -> RowResult:
    row = Row(index=index, line=index + 1, content=b"{}")
    return RowResult(row=row, seconds=0.5, attempts=2, **facts)


@pytest.mark.parametrize("layout", ["record", "flat"])
@given(output=OUTPUTS, failed=st.booleans(), index=st.integers(0, 10**9))
def test_a_result_is_read_as_it_was_written(
    layout: Layout,
    output: dict[str, object],
    failed: bool,  # noqa: FBT001
    index: int,
) -> None:
    """Every field that a report needs comes back, in both layouts."""
    error = ErrorInfo(type="ValueError", message="no", where="p.py:3")
    usage = Usage(requests=2, prompt_tokens=9, cached_tokens=4, completion_tokens=3)
    written = result(
        index,
        id='"a"' if layout == "record" else None,
        rest={"lang": '"fr"'} if layout == "record" else {},
        output=output,
        error=error if failed else None,
        usage=usage,
        finish_reasons={"x": "stop"},
    )
    read = parse_result(render_record(written, layout=layout))

    assert read.output == output
    assert (read.index, read.usage, read.seconds, read.attempts) == (
        index,
        usage,
        0.5,
        2,
    )
    assert read.error == (error if failed else None)
    assert read.finish_reasons == {"x": "stop"}
    if layout == "record":
        assert (read.id, read.given) == ("a", {"lang": "fr"})


@pytest.mark.parametrize(
    "change",
    [
        {"status": "done"},
        {"usage": {"requests": "many"}},
        {"usage": None},
        {"seconds": float("nan")},
        {"output": 3},
        {"index": None},
    ],
)
def test_what_is_no_result_is_counted(
    tmp_path: Path, change: dict[str, object]
) -> None:
    """A line of another kind is skipped and counted, never an error."""
    good = render_record(result())
    bad = json.dumps({**json.loads(good), **change}).encode()
    path = tmp_path / "out.jsonl"
    path.write_bytes(b"\n".join([good, bad, b"[]", b"\xff", b'{"x": 1}', good[:20]]))
    reader = RecordedReader(str(path))

    assert [read.index for read in reader] == [0]
    assert reader.unread == 5


def test_long_numbers_are_read(tmp_path: Path) -> None:
    """A number that Python does not read as one does not hide its row."""
    line = render_record(result(rest={"n": "9" * 5000}))
    (tmp_path / "out").write_bytes(line)

    assert len(list(RecordedReader(str(tmp_path / "out")))) == 1


def test_a_row_that_was_run_again_counts_once(tmp_path: Path) -> None:
    """Of a failed row the last line of the journal counts; a torn line does not."""
    no = ErrorInfo(type="ValueError", message="no")
    lines = [
        result(0, error=no),
        result(1),
        result(2, error=no),
        result(0),
        result(2, error=dataclasses.replace(no, message="again")),
    ]
    path = tmp_path / "out.part"
    path.write_bytes(
        b"".join(
            pack(Entry(line=render_record(each), finished=each.ok, key=digest(b"{}")))
            for each in lines
        )
        + b'{"index": 9, "sta'
    )
    reader = RecordedReader(str(path), is_journal=True)
    read = [(each.index, each.error and each.error.message) for each in reader]

    assert read == [(1, None), (0, None), (2, "again")]
    assert reader.unread == 1
