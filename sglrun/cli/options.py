"""The options: settings as a command takes them."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from typing import Annotated, Any

import typer

from sglrun.cli.streams import Streams
from sglrun.config import RunConfig, resolve_config, secrets_around
from sglrun.config.settings import SECTIONS, Setting

Command = Callable[..., None]


def configured(streams: Streams, options: Mapping[str, object]) -> RunConfig:
    """Return the configuration of a run; what it must not show, *streams* will not.

    Args:
        streams: those of the process.
        options: setting to value as typed.

    Raises:
        ConfigError: as ``resolve_config``.
    """
    streams.secrets.add(secrets_around())
    config = resolve_config(options)
    streams.secrets.add(config.secrets)
    return config


def with_settings(
    *sections: str, without: frozenset[str] = frozenset()
) -> Callable[[Command], Command]:
    """Return a decorator that gives a command the options of *sections*.

    The command takes them as ``**options``: setting to text as typed, or ``None``.

    Args:
        sections: titles of sections of settings; help shows them in this order.
        without: settings that the command cannot honour.
    """

    def decorate(command: Command) -> Command:
        signature = inspect.signature(command)
        own = [
            parameter
            for parameter in signature.parameters.values()
            if parameter.kind is not parameter.VAR_KEYWORD
        ]
        options = [
            _parameter(setting, section)
            for section in sections
            for setting in SECTIONS[section]
            if setting.name not in without
        ]

        @wraps(command)
        def called(**arguments: object) -> None:
            command(**arguments)

        called.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [*own, *options]
        )
        return called

    return decorate


def _parameter(setting: Setting, section: str) -> inspect.Parameter:
    option = typer.Option(
        *_names(setting),
        help=_help(setting),
        metavar=setting.kind.metavar or None,
        rich_help_panel=section,
        show_default=False,
    )
    kind: Any = bool if not setting.kind.metavar else str
    if setting.kind.repeats:
        kind = list[str]
    return inspect.Parameter(
        setting.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[kind | None, option],
    )


def _names(setting: Setting) -> Iterator[str]:
    if setting.short:
        yield setting.short
    yield f"{setting.flag}/{setting.negative}" if setting.negative else setting.flag


def _help(setting: Setting) -> str:
    default = setting.default
    if default is None or default is False or default == ():
        return setting.help
    shown = {True: "on"}.get(default, default) if isinstance(default, bool) else default
    text = f"{shown:g}" if isinstance(shown, float) else str(shown)
    return f"{setting.help} [{text}]"
