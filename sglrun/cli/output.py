"""The output of a run, as options ask for it: a durable file, or stdout."""

import platform
import shlex
import sys
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial

from sglrun.backends.base import Backend
from sglrun.backends.connection import secrets_of
from sglrun.backends.description import described
from sglrun.batch.durable import DurableOptions, DurableOutput
from sglrun.batch.identity import run_identity
from sglrun.batch.output import Output, StreamOutput
from sglrun.batch.records import render_record
from sglrun.batch.rows import RowReader
from sglrun.cli.versions import version_of
from sglrun.cli.view import RunView
from sglrun.config import RunConfig
from sglrun.interpreter.program import Program


def open_output(
    program: Program,
    backend: Backend,
    reader: RowReader,
    config: RunConfig,
    view: RunView,
) -> Output:
    """Return where the results go.

    Raises:
        ResultsError: the file belongs to another run, or cannot be written.
        UsageError: the input is where results go, or is closed.
    """
    view.check_input(reader.source)
    rows = config.rows
    secrets = secrets_of(config.backend_options)
    render = partial(render_record, layout=rows.format, secrets=secrets)
    if rows.output is None:
        return StreamOutput(view.write_results, render)
    options = DurableOptions(
        identity=run_identity(
            program,
            backend,
            sampling=config.sampling,
            layout=rows.format,
            include=frozenset(rows.include),
        ),
        layout=rows.format,
        overwrite=rows.overwrite,
        input_identity=reader.source.identity,
        about=_about(config, backend, reader.source.name),
        secrets=secrets,
        replay=config.safety.replay,
        on_note=view.note,
    )
    return DurableOutput(rows.output, render, options)


def _about(config: RunConfig, backend: Backend, inputs: str) -> Mapping[str, object]:
    """Return what a manifest tells besides the identity of the run."""
    return {
        "command": shlex.join(["sglrun", *sys.argv[1:]]),
        "versions": {
            "sglrun": version_of("sglrun"),
            "python": platform.python_version(),
        },
        "input": inputs,
        "limit": config.rows.limit,
        "url": " ".join(config.backend.url) or None,
        "answered": described(backend),
        "prices": None if config.prices is None else asdict(config.prices),
        "precache": config.speed.precache,
    }
