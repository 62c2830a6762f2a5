"""Outputs."""

from collections.abc import Iterator

import pytest

from sglrun.batch.output import StreamOutput
from sglrun.batch.results import RowResult
from sglrun.batch.rows import Row
from sglrun.batch.summary import RunSummary
from sglrun.errors import RunStoppedError

ROWS = [Row(index=index, line=index + 1, content=b"") for index in range(3)]


def line_of(result: RowResult) -> bytes:
    return b'{"index": %d, "a": 1}\n' % result.index


def test_results_that_are_ready_are_one_write() -> None:
    """Results are written together, in the order they come."""
    written: list[bytes] = []
    with StreamOutput(written.append, line_of) as output:
        rows = list(output.remaining(ROWS))
        output.append([RowResult(row=rows[1]), RowResult(row=rows[0])])
        output.append([RowResult(row=rows[2])])
        output.finish(RunSummary())

    assert written == [
        b'{"index": 1, "a": 1}\n{"index": 0, "a": 1}\n',
        b'{"index": 2, "a": 1}\n',
    ]


@pytest.mark.parametrize(
    ("given", "told"), [([0, 2], "row 1 has 0"), ([0, 1, 1, 2], "row 1 has 2")]
)
def test_a_row_without_its_one_result_is_named(given: list[int], told: str) -> None:
    """A result that is missing, or comes twice, stops the run at its end."""
    with StreamOutput(lambda _: None, line_of) as output:
        rows = list(output.remaining(ROWS))
        output.append([RowResult(row=rows[index]) for index in given])
        with pytest.raises(RunStoppedError, match=told):
            output.finish(RunSummary())


@pytest.mark.parametrize("line", [b"", b'{"index": 0}', b'{"index": 7}\n', b"a\nb\n"])
def test_a_result_is_one_line_that_tells_its_row(line: bytes) -> None:
    """What would be no result to a reader is not written."""
    written: list[bytes] = []
    with StreamOutput(written.append, lambda _: line) as output:
        (row,) = output.remaining(ROWS[:1])
        with pytest.raises(RunStoppedError, match="result of row 0 is no line"):
            output.append([RowResult(row=row)])

    assert written == []


@pytest.mark.parametrize(
    ("lost", "told"),
    [([], None), ([1], "row 1 was written"), ([0, 1, 2], "row 0 was written")],
)
def test_a_file_is_read_back(lost: list[int], told: str | None) -> None:
    """A result that is not in the file that stdout is stops the run at its end."""
    written: list[bytes] = [b"what another process says\n"]

    def read_back() -> Iterator[bytes]:
        left = [line for n, line in enumerate(written) if n - 1 not in lost]
        return iter(left)

    with StreamOutput(written.append, line_of, read_back=read_back) as output:
        for row in output.remaining(ROWS):
            output.append([RowResult(row=row)])
        if told is None:
            output.finish(RunSummary())
            return
        with pytest.raises(RunStoppedError, match=told):
            output.finish(RunSummary())
