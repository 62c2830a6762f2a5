"""Failures: how an error becomes words on stderr and an exit code.

Rule: the one place that decides both.
"""

import traceback
from collections.abc import Iterator

import typer

from sglrun.errors import BackendError, RunStoppedError, SglrunError

BUG = 70
"""Our own mistake; sysexits.h calls it EX_SOFTWARE."""


def exit_code(error: BaseException) -> int:
    """Return the exit code of a command that *error* ended."""
    if isinstance(error, BackendError | OSError):
        return RunStoppedError.exit_code
    if isinstance(error, SglrunError | typer.TyperException):
        return error.exit_code
    return BUG


def lines(error: BaseException, *, verbose: bool = False) -> Iterator[str]:
    """Return what a user is told about *error*.

    Args:
        error: what ended the command.
        verbose: tell where in the code it came from, too.
    """
    if isinstance(error, typer.TyperException):
        yield f"sglrun: error: {_first_low(error.format_message())}"
        yield from _usage_hint(error)
        return
    known = isinstance(error, SglrunError | OSError)
    if verbose or not known:
        yield from "".join(traceback.format_exception(error)).splitlines()
    if not known:
        yield (
            f"sglrun: error: this is a bug in sglrun: {type(error).__name__}: {error}"
        )
        yield "  please report it with the lines above"
        return
    yield f"sglrun: error: {error}"
    yield from (f"  {note}" for note in getattr(error, "__notes__", ()))


def _usage_hint(error: typer.TyperException) -> Iterator[str]:
    context = getattr(error, "ctx", None)
    if context is not None:
        yield f"  see: {context.command_path} --help"


def _first_low(message: str) -> str:
    """Return *message* as the end of a sentence: no capital, no full stop."""
    return (message[:1].lower() + message[1:]).rstrip(".")
