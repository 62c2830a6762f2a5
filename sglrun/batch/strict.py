"""The strict check: all rows are good, or none is run."""

from itertools import islice

from sglrun.batch.check import Complaint, check_rows
from sglrun.batch.rows import RowReader
from sglrun.errors import InputError
from sglrun.interpreter.program import Program

_SHOWN = 5


def need_good_rows(program: Program, reader: RowReader, *, limit: int | None) -> None:
    """Check the first *limit* rows as ``check`` does, and begin again before them.

    Reads them all; of a pipe a copy is kept in a temporary file.

    Raises:
        InputError: one cannot be run.
    """
    reader.source.keep()
    shown: list[Complaint] = []
    bad = last = 0
    for complaint in check_rows(program, islice(reader, limit)):
        if complaint.fails and complaint.line != last:
            bad, last = bad + 1, complaint.line
            shown += [complaint][: _SHOWN - len(shown)]
    if shown:
        name = reader.source.name
        told = "; ".join(f"{name}:{one.place}: {one.message}" for one in shown)
        more = f"; and {bad - len(shown):,} more" if bad > len(shown) else ""
        raise InputError(
            f"{told}{more} (--strict: nothing was sent; `sglrun check` lists all)",
            path=name,
            line=shown[0].line,
        )
    reader.source.rewind()
