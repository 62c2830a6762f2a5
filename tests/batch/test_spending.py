"""What earlier runs spent."""

import pytest

from sglrun.backends.base import Usage
from sglrun.batch.records import render_record
from sglrun.batch.results import Layout, RowResult
from sglrun.batch.rows import Row
from sglrun.batch.spending import spent_in

USAGE = Usage(requests=1, prompt_tokens=5, cached_tokens=2, completion_tokens=3)


@pytest.mark.parametrize("layout", ["record", "flat"])
def test_the_lines_of_results_say_what_was_spent(layout: Layout) -> None:
    """Usages add up; a row's own fields of that name, and torn lines, do not count."""
    row = Row(index=0, line=1, content=b"", raw={"usage": '{"prompt_tokens": 99}'})
    line = render_record(RowResult(row=row, rest=row.raw, usage=USAGE), layout=layout)

    assert spent_in([line, line[:40], b"[]\n", line], layout) == USAGE + USAGE
