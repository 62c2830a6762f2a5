"""``sglrun batch``: a program over every row of a file."""

import signal
from collections.abc import Callable
from contextlib import ExitStack
from itertools import islice
from typing import Annotated

import typer

from sglrun.backends.base import Usage
from sglrun.batch.options import BatchOptions
from sglrun.batch.rows import read_rows
from sglrun.batch.runner import BatchRunner
from sglrun.batch.spending import spent_before
from sglrun.batch.strict import need_good_rows
from sglrun.batch.summary import RunSummary
from sglrun.cli.backend import chosen_backend, offer_backend
from sglrun.cli.dry_run import write_estimate
from sglrun.cli.interrupt import caught_signals
from sglrun.cli.log import files_of, logging_to
from sglrun.cli.memory import share_memory
from sglrun.cli.options import configured, with_settings
from sglrun.cli.output import open_output
from sglrun.cli.streams import Streams, only_results_on_stdout
from sglrun.cli.view import RunView
from sglrun.config import RunConfig
from sglrun.config.settings import SECTIONS
from sglrun.display.wording import of_many
from sglrun.errors import RunInterruptedError, SglrunError
from sglrun.interpreter.loader import load_program, reference_in
from sglrun.interpreter.program import Program
from sglrun.interpreter.sglang.lazy_backend import LazyBackend


@with_settings(*SECTIONS)
def batch(
    ctx: typer.Context,
    program: Annotated[
        str, typer.Argument(metavar="PROGRAM", help="FILE.py, FILE.py:NAME or a module")
    ],
    inputs: Annotated[
        str,
        typer.Argument(metavar="INPUTS", help="Rows as JSONL, .gz or .zst; - is stdin"),
    ],
    *,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Say what would be asked; send nothing."),
    ] = False,
    **options: object,
) -> None:
    """Run a program over every row of a JSONL file: one line in, one line out.

    Results go to stdout, or with -o to a file that another run of the same command
    completes. Everything else goes to stderr.
    """
    share_memory()
    streams: Streams = ctx.obj
    config = configured(streams, options)
    if config.rows.output is None:
        streams.need_stdout()
    used = files_of(program, inputs, config.rows.output)
    with (
        logging_to(streams, config.display, apart_from=used),
        only_results_on_stdout(streams),
    ):
        for note in config.notes:
            streams.say(f"sglrun: warning: {note}")
        offered = offer_backend(config)
        loaded = load_program(program)
        if dry_run:
            write_estimate(loaded, inputs, config, streams, offered)
            return
        reference = reference_in(program)
        summary = run_batch(
            loaded, inputs, config, streams, offered, reference=reference
        )
    raise typer.Exit(summary.exit_code)


def batch_options(config: RunConfig) -> BatchOptions:
    """Return how rows are run, as *config* has it."""
    rows, speed, safety = config.rows, config.speed, config.safety
    limit = safety.max_errors
    return BatchOptions(
        sampling=config.sampling,
        num_threads=None if speed.num_threads == "auto" else speed.num_threads,
        max_in_flight=speed.max_in_flight,
        retries=speed.retries,
        # A file is put in order at its end; until then nothing finished waits.
        order=rows.order if rows.output is None else "completion",
        precache=speed.precache,
        schedule=speed.schedule,
        include=frozenset(rows.include),
        max_errors=limit if isinstance(limit, int) else None,
        max_error_share=limit if isinstance(limit, float) else None,
        row_timeout_s=safety.row_timeout,
        require_stop=safety.require_stop,
        approximate=config.backend.allow_approximate,
        requests_per_minute=speed.rpm,
        tokens_per_minute=speed.tpm,
        max_total_tokens=safety.max_total_tokens,
        max_cost=safety.max_cost,
        prices=config.prices,
        patience_s=safety.wait_for_server,
    )


def spent_of_budget(config: RunConfig) -> Usage | None:
    """Return what earlier runs spent of the budget of the output, if it has one."""
    rows, safety = config.rows, config.safety
    limits = (safety.max_cost, safety.max_total_tokens)
    if rows.output is None or rows.overwrite or limits == (None, None):
        return None
    return spent_before(rows.output, rows.format)


def run_batch(
    program: Program,
    inputs: str,
    config: RunConfig,
    streams: Streams,
    offered: LazyBackend,
    *,
    reference: str,
) -> RunSummary:
    """Run *program* over the rows of *inputs*; results and a summary are written.

    *reference* is what found the program in its file.

    Raises:
        SglrunError: the run cannot begin, or ended before its last row.
    """
    with ExitStack() as stack:
        view = RunView(config, streams)
        reader = stack.enter_context(read_rows(inputs))
        if config.rows.strict:
            view.check_input(reader.source)
            need_good_rows(program, reader, limit=config.rows.limit)
        backend = chosen_backend(config, offered)
        stack.callback(backend.close)
        streams.secrets.add(backend.secrets)
        output = stack.enter_context(
            open_output(
                program,
                backend,
                reader,
                config,
                view,
                streams.secrets,
                reference=reference,
            )
        )
        runner = stack.enter_context(
            BatchRunner(
                program,
                backend,
                batch_options(config),
                on_note=view.note,
                on_results=lambda results: view.add(results, resumed=output.resumed),
                steps=output.steps,
                spent=spent_of_budget(config),
            )
        )
        view.watch(runner)
        view.expect_rows_of(inputs)
        rows = islice(reader, config.rows.limit)
        try:
            stop = drain(runner, view, config.safety.grace)
            with caught_signals(stop, view.close), view:
                for results in runner.batches(rows, remaining=output.remaining):
                    output.append(results)
                output.finish(runner.summary())
        except SglrunError:
            view.summarize(runner.summary(), resumed=output.resumed)
            raise
        view.summarize(runner.summary(), resumed=output.resumed)
        return runner.summary()


def drain(
    runner: BatchRunner, view: RunView, grace_s: float
) -> Callable[[signal.Signals], None]:
    """Return what the first signal does to a run."""

    def stop(number: signal.Signals) -> None:
        reason = RunInterruptedError(
            f"interrupted by {number.name}", signal_number=number
        )
        runner.stop(reason, grace_s=grace_s)
        rows = of_many(runner.in_flight, "row")
        view.note(
            f"{number.name}: waiting up to {grace_s:g} s for {rows} in flight; "
            "a second one leaves at once"
        )

    return stop
