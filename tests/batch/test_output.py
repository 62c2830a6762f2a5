"""Outputs."""

import pytest

from sglrun.batch.output import StreamOutput
from sglrun.batch.results import RowResult
from sglrun.batch.rows import Row
from sglrun.batch.summary import RunSummary
from sglrun.errors import RunStoppedError

ROWS = [Row(index=index, line=index + 1, content=b"") for index in range(3)]


def line_of(result: RowResult) -> bytes:
    return b"%d\n" % result.index


def test_results_that_are_ready_are_one_write() -> None:
    """Results are written together, in the order they come."""
    written: list[bytes] = []
    with StreamOutput(written.append, line_of) as output:
        rows = list(output.remaining(ROWS))
        output.append([RowResult(row=rows[1]), RowResult(row=rows[0])])
        output.append([RowResult(row=rows[2])])
        output.finish(RunSummary())

    assert written == [b"1\n0\n", b"2\n"]


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
