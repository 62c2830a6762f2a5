"""``sglrun models``: the models of the embedded engine."""

import sys

import typer
import typer.core

from sglrun.backends.local.store import BUNDLED, list_models, models_folder, pull
from sglrun.cli.help import HelpfulCommand

_MEGABYTE = 1_000_000

models = typer.Typer(rich_markup_mode=None)


@models.callback(invoke_without_command=True)
def listed(ctx: typer.Context) -> None:
    """List the models of the embedded engine; pull fetches the bundled one."""
    if ctx.invoked_subcommand is not None:
        return
    found = list_models()
    for model in found:
        note = "  (the default)" if model.name == BUNDLED.name else ""
        typer.echo(f"{model.name}  {model.size_bytes // _MEGABYTE} MB{note}")
    if not found:
        typer.echo(f"no models in {models_folder()}", err=True)
    if BUNDLED.name not in {model.name for model in found}:
        typer.echo(
            f"sglrun models pull  fetches {BUNDLED.title} "
            f"({BUNDLED.download_bytes // _MEGABYTE} MB, {BUNDLED.licence})",
            err=True,
        )


@models.command("pull", cls=HelpfulCommand, short_help="Fetch the bundled model.")
def pull_model() -> None:
    """Fetch the bundled model once, check it, and convert it for this engine."""
    pull(_report)


def _report(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
