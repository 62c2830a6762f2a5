"""``sglrun check``: every row against the program, before a cent is spent."""

from typing import Annotated

import typer

from sglrun.batch.check import Complaint, check_rows
from sglrun.batch.rows import read_rows
from sglrun.cli.log import logging_to
from sglrun.cli.streams import Streams, only_results_on_stdout
from sglrun.config import secrets_around
from sglrun.config.settings import DisplaySettings
from sglrun.interpreter.loader import load_program


def check(
    ctx: typer.Context,
    program: Annotated[
        str, typer.Argument(metavar="PROGRAM", help="FILE.py, FILE.py:NAME or a module")
    ],
    inputs: Annotated[
        str,
        typer.Argument(metavar="INPUTS", help="Rows as JSONL, .gz or .zst; - is stdin"),
    ],
) -> None:
    """Check that every row can be run: one line of output for each that cannot.

    Names the line, the argument and the value; repeated ids are told too. The exit
    code is 1 if a row would fail. No model is asked, and the program is not run.
    """
    streams: Streams = ctx.obj
    streams.need_stdout()
    streams.secrets.add(secrets_around())
    with logging_to(streams, DisplaySettings()), only_results_on_stdout(streams):
        loaded = load_program(program)
        with read_rows(inputs) as rows:
            streams.check_input(rows.source, results_on_stdout=True)
            failed = last = 0
            for complaint in check_rows(loaded, rows):
                if complaint.fails and complaint.line != last:
                    failed, last = failed + 1, complaint.line
                line = streams.secrets.redacted(_line(inputs, complaint))
                streams.write(line.encode("utf-8", "replace"))
    streams.say(f"sglrun: {failed} {'row' if failed == 1 else 'rows'} would fail")
    if failed:
        raise typer.Exit(1)


def _line(inputs: str, complaint: Complaint) -> str:
    name = "stdin" if inputs == "-" else inputs
    kind = "" if complaint.fails else "warning: "
    return f"{name}:{complaint.place}: {kind}{complaint.message}\n"
