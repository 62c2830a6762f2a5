"""The output of a run, as options ask for it: a durable file, or stdout."""

import platform
import shlex
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from functools import partial

from sglrun.backends.base import Backend
from sglrun.backends.description import described
from sglrun.backends.secrets import MASK, Secrets, without_password
from sglrun.batch.durable import DurableOutput
from sglrun.batch.durable_options import DurableOptions
from sglrun.batch.identity import run_identity
from sglrun.batch.output import Output, StreamOutput
from sglrun.batch.records import render_record
from sglrun.batch.rows import RowReader
from sglrun.cli.versions import version_of
from sglrun.cli.view import RunView
from sglrun.config import RunConfig
from sglrun.interpreter.program import Program

_HEADER = "--header"


def open_output(
    program: Program,
    backend: Backend,
    reader: RowReader,
    config: RunConfig,
    view: RunView,
    secrets: Secrets,
    *,
    reference: str,
) -> Output:
    """Return where the results go, without *secrets*.

    *reference* is what found *program* in its file.

    Raises:
        ResultsError: the file belongs to another run, or cannot be written.
        UsageError: the input is where results go, or is closed.
    """
    view.check_input(reader.source)
    rows = config.rows
    render = partial(render_record, layout=rows.format, redacted=secrets.redacted_json)
    if rows.output is None:
        return StreamOutput(
            view.write_results,
            render,
            layout=rows.format,
            read_back=view.written_results(),
        )
    options = DurableOptions(
        identity={
            name: secrets.redacted(words)
            for name, words in run_identity(
                program,
                backend,
                sampling=config.sampling,
                layout=rows.format,
                include=frozenset(rows.include),
                reference=reference,
                require_stop=config.safety.require_stop,
            ).items()
        },
        layout=rows.format,
        overwrite=rows.overwrite,
        input_identity=reader.source.identity,
        about=_about(config, backend, reader.source.name, secrets),
        secrets=secrets,
        replay=config.safety.replay,
        on_note=view.note,
    )
    return DurableOutput(rows.output, render, options)


def shown_command(words: Iterable[str]) -> str:
    """Return the command of *words* as it may be written: no header has its value."""
    shown = ["sglrun"]
    is_header = False
    for word in words:
        name, equals, value = word.partition("=")
        if is_header:
            shown.append(_without_value(word))
        elif name == _HEADER and equals:
            shown.append(f"{name}={_without_value(value)}")
        else:
            shown.append(without_password(word))
        is_header = word == _HEADER
    return shlex.join(shown)


def _without_value(header: str) -> str:
    return f"{header.partition(':')[0]}: {MASK}" if ":" in header else MASK


def _about(
    config: RunConfig, backend: Backend, inputs: str, secrets: Secrets
) -> Mapping[str, object]:
    """Return what a manifest tells besides the identity of the run."""
    urls = " ".join(map(without_password, config.backend.url))
    return {
        "command": secrets.redacted(shown_command(sys.argv[1:])),
        "versions": {
            "sglrun": version_of("sglrun"),
            "python": platform.python_version(),
        },
        "input": inputs,
        "limit": config.rows.limit,
        "url": secrets.redacted(urls) or None,
        "answered": described(backend),
        "prices": None if config.prices is None else asdict(config.prices),
        "precache": config.speed.precache,
    }
