"""The command line: options in, exit code out.

Rule: only this package prints an error, and only it ends the process.
"""

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from sglrun.cli import failures
from sglrun.cli.commands import Commands
from sglrun.cli.streams import BROKEN_PIPE, ReaderGoneError, Streams, open_streams
from sglrun.cli.versions import version_of
from sglrun.errors import RunInterruptedError, UsageError

app = typer.Typer(
    name="sglrun",
    cls=Commands,
    help="Run an LLM program over every row of a JSONL file.",
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _show_version(value: bool) -> None:  # noqa: FBT001 - typer's signature
    if value:
        typer.echo(f"sglrun {version_of('sglrun') or 'from source'}")
        raise typer.Exit


def _show_help(ctx: typer.Context, value: bool) -> None:  # noqa: FBT001
    if value:
        typer.echo(ctx.get_help())
        raise typer.Exit


# typer's own help option would load pydantic for every command.
@app.callback(invoke_without_command=True, add_help_option=False)
def sglrun(
    ctx: typer.Context,
    *,
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version."
        ),
    ] = False,
    show_help: Annotated[
        bool,
        typer.Option(
            "--help", "-h", callback=_show_help, is_eager=True, help="Show this."
        ),
    ] = False,
) -> None:
    """Run an LLM program over every row of a JSONL file."""
    del show_version, show_help
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help(), err=True)
        raise typer.Exit(UsageError.exit_code)


def main() -> None:
    """Run the command that the process was given, and end with its exit code."""
    sys.exit(run_command(sys.argv[1:], open_streams()))


def run_command(arguments: Sequence[str], streams: Streams) -> int:
    """Run a command and return its exit code; errors are told on stderr.

    Args:
        arguments: what was typed after ``sglrun``.
        streams: where it writes.
    """
    verbose = "-v" in arguments or "--verbose" in arguments
    try:
        code = app(
            list(arguments), prog_name="sglrun", standalone_mode=False, obj=streams
        )
    except ReaderGoneError:
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return RunInterruptedError.exit_code
    except SystemExit as exc:
        # So typer tells that nobody reads what it echoes.
        if isinstance(exc.__context__, BrokenPipeError):
            return BROKEN_PIPE
        raise
    except BaseException as exc:  # noqa: BLE001 - told, and the exit code says it
        for line in failures.lines(exc, verbose=verbose):
            streams.say(line)
        return failures.exit_code(exc)
    return code if isinstance(code, int) else 0
