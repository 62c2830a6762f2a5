"""``sglrun trace``: what all rows share, what ends it, and the program's graph."""

import importlib
import json
import shutil
from collections.abc import Mapping
from contextlib import closing
from itertools import islice
from typing import Annotated

import typer

from sglrun.batch.rows import given, read_rows
from sglrun.cli.backend import offer_backend
from sglrun.cli.log import files_of, logging_to
from sglrun.cli.options import configured, with_settings
from sglrun.cli.streams import Streams, only_results_on_stdout
from sglrun.cli.tokens import TokenCounter, token_counter
from sglrun.display.diagram import as_dot, as_mermaid
from sglrun.display.traced import SharedText, TraceReport
from sglrun.errors import UsageError
from sglrun.interpreter.loader import load_program
from sglrun.interpreter.program import Program
from sglrun.interpreter.tracing.traced_stream import common_prefix
from sglrun.interpreter.tracing.tracer import first_prompt, trace_program

_ROWS = 8


@with_settings("Backend", "Display", without=frozenset({"progress"}))
def trace(
    ctx: typer.Context,
    program: Annotated[
        str, typer.Argument(metavar="PROGRAM", help="FILE.py, FILE.py:NAME or a module")
    ],
    inputs: Annotated[
        str | None,
        typer.Argument(metavar="[INPUTS]", help="Rows whose prompts are compared."),
    ] = None,
    *,
    rows: Annotated[
        int, typer.Option("--rows", min=1, help="Rows of INPUTS to compare.")
    ] = _ROWS,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write one JSON object.")
    ] = False,
    dot: Annotated[
        bool, typer.Option("--dot", help="Write the graph for Graphviz.")
    ] = False,
    mermaid: Annotated[
        bool, typer.Option("--mermaid", help="Write the graph for Mermaid.")
    ] = False,
    **options: object,
) -> None:
    """Show what the prompts of all rows begin with, what ends it, and the graph.

    The program is run once with stand-ins for its arguments and for all that a model
    would say, and once up to its first generation for each row of INPUTS that is
    compared. No model is asked.
    """
    if as_json + dot + mermaid > 1:
        raise UsageError("one of --json, --dot and --mermaid can be written, not more")
    streams: Streams = ctx.obj
    streams.need_stdout()
    config = configured(streams, options)
    with (
        logging_to(streams, config.display, apart_from=files_of(program, inputs)),
        only_results_on_stdout(streams),
        closing(offer_backend(config)) as offered,
    ):
        loaded = load_program(program)
        report = trace_report(loaded, inputs, rows, token_counter(config, offered))
    if dot or mermaid:
        text = (as_dot if dot else as_mermaid)(report.trace.graph)
    elif as_json:
        text = json.dumps(report.as_json(), ensure_ascii=False) + "\n"
    else:
        # rich takes long to load, so only who looks at a tree pays for it.
        view = importlib.import_module("sglrun.display.trace")
        terminal = streams.out_is_terminal
        size = {"width": shutil.get_terminal_size().columns} if terminal else {}
        colored = config.color and terminal
        text = str(view.render_trace(report, color=colored, **size))
    streams.write(text.encode("utf-8", "backslashreplace"))


def trace_report(
    program: Program, inputs: str | None, most: int, counter: TokenCounter
) -> TraceReport:
    """Trace *program*, and compare the first prompts of *most* rows of *inputs*.

    Raises:
        InputError: they cannot be read.
    """
    arguments = [] if inputs is None else read_arguments(program, inputs, most)
    names = arguments[0].keys() if arguments else None
    found = trace_program(program, template=counter.template, given=names)
    prompts = [
        first_prompt(program, each, template=counter.template).text
        for each in arguments
    ]
    rows = shared(common_prefix(prompts), counter, len(prompts)) if prompts else None
    return TraceReport(
        program=program.name,
        trace=found,
        prefix=shared(found.prefix.prompt.text, counter),
        rows=rows,
        counted_by=counter.name,
    )


def shared(text: str, counter: TokenCounter, rows: int = 0) -> SharedText:
    """Return *text*, which so many *rows* begin with, with its tokens."""
    return SharedText(text=text, tokens=counter.count(text), rows=rows)


def read_arguments(
    program: Program, inputs: str, most: int
) -> list[Mapping[str, object]]:
    """Return the arguments of the first *most* rows of *inputs*; others are skipped.

    Raises:
        InputError: they cannot be read.
    """
    with read_rows(inputs) as reader:
        good = (row for row in reader if row.error_for(program) is None)
        return [given(row, program).arguments for row in islice(good, most)]
