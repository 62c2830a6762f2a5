"""``sglrun models``: the models of the embedded engine."""

import sys

import typer
import typer.core

from sglrun.backends.base import CTX_SIZE
from sglrun.backends.local.context_settings import ContextSettings
from sglrun.backends.local.footprint import read_footprint, size_text
from sglrun.backends.local.store import (
    BUNDLED,
    StoredModel,
    list_models,
    models_folder,
    pull,
)
from sglrun.cli.help import HelpfulCommand
from sglrun.errors import ModelError

models = typer.Typer(rich_markup_mode=None)


@models.callback(invoke_without_command=True)
def listed(ctx: typer.Context) -> None:
    """List the models of the embedded engine; pull fetches the bundled one."""
    if ctx.invoked_subcommand is not None:
        return
    found = list_models()
    for model in found:
        note = "  (the default)" if model.name == BUNDLED.name else ""
        typer.echo(f"{model.name}  {_size(model)}{note}")
    if not found:
        typer.echo(f"no models in {models_folder()}", err=True)
    if BUNDLED.name not in {model.name for model in found}:
        typer.echo(
            f"sglrun models pull  fetches {BUNDLED.title} "
            f"({size_text(BUNDLED.download_bytes)}, {BUNDLED.licence})",
            err=True,
        )


@models.command("pull", cls=HelpfulCommand, short_help="Fetch the bundled model.")
def pull_model() -> None:
    """Fetch the bundled model once, check it, and convert it for this engine."""
    pull(_report)


def _size(model: StoredModel) -> str:
    """Return how much *model* takes on the disk and in memory."""
    on_disk = size_text(model.size_bytes)
    try:
        footprint = read_footprint(model.path)
    except (ModelError, OSError) as exc:
        return f"{on_disk}, but {exc}"
    in_memory = footprint.weights + footprint.working(ContextSettings())
    return f"{on_disk}, in memory {size_text(in_memory)} with {CTX_SIZE:,} tokens"


def _report(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
