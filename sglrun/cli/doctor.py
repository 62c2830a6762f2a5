"""``sglrun doctor``: what is installed, and which backend would be used."""

import platform
from collections.abc import Iterator, Mapping

import typer

from sglrun.backends import create_backend
from sglrun.backends.description import described
from sglrun.backends.secrets import without_password
from sglrun.cli.failures import exit_code
from sglrun.cli.log import logging_to
from sglrun.cli.options import configured, with_settings
from sglrun.cli.streams import Streams
from sglrun.cli.versions import version_of
from sglrun.config import RunConfig
from sglrun.errors import SglrunError

EXTRAS: Mapping[str, tuple[str, ...]] = {
    "local": ("xllamacpp", "numpy", "jinja2"),
    "zstd": ("zstandard",),
}
# A server may tell its whole configuration.
_MOST_SHOWN = 20
_SHOWN = frozenset({"version", "context_length", "dtype", "device", "tp_size"})
_TOLD = frozenset({"kind", "model"})
_WIDTH = 16


@with_settings("Backend")
def doctor(ctx: typer.Context, **options: object) -> None:
    """Say what is installed, which backend would be used, and what it answers.

    Exits with 0 if a run could begin.
    """
    streams: Streams = ctx.obj
    config = configured(streams, options)
    _tell(streams, *_installed(), ("backend", _choice(config)))
    try:
        with logging_to(streams, config.display):
            facts = ask_backend(config)
    except SglrunError as exc:
        _tell(streams, ("problem", str(exc)))
        raise typer.Exit(exit_code(exc)) from exc
    _tell(streams, *facts)


def ask_backend(config: RunConfig) -> tuple[tuple[str, str], ...]:
    """Return what the configured backend tells about itself; waits for it.

    Raises:
        SglrunError: no run could begin with it.
    """
    backend = create_backend(config.backend_name, config.backend_options)
    try:
        told = backend.get_server_info().items()
        server = {
            str(key): value
            for key, value in told
            if isinstance(value, str | int | float)
            and (key in _SHOWN if len(told) > _MOST_SHOWN else key not in _TOLD)
        }
        return (
            *described(backend).items(),
            *((key, str(value)) for key, value in server.items()),
        )
    finally:
        backend.close()


def _tell(streams: Streams, *facts: tuple[str, str]) -> None:
    for label, fact in facts:
        shown = streams.secrets.redacted(fact)
        typer.echo(f"{label.replace('_', ' '):<{_WIDTH}} {shown}")


def _installed() -> Iterator[tuple[str, str]]:
    own = version_of("sglrun") or "from source"
    yield "sglrun", f"{own} on Python {platform.python_version()}"
    for extra, packages in EXTRAS.items():
        missing = [package for package in packages if not version_of(package)]
        found = ", ".join(f"{name} {version_of(name)}" for name in packages)
        advice = f"not installed: pip install 'sglrun[{extra}]'"
        yield extra, advice if missing else found


def _choice(config: RunConfig) -> str:
    options = config.backend_options
    urls = ", ".join(map(without_password, config.backend.url))
    at = f" at {urls}" if urls else ""
    key = "" if options.api_key is None else ", with a key"
    return f"{config.backend_name}{at}{key}"
