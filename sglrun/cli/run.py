"""``sglrun run``: one row, streamed to the terminal as it is generated."""

import json
from collections.abc import Callable, Iterable
from typing import Annotated, Any

import typer

from sglrun.batch.meter import Meter
from sglrun.batch.records import json_text
from sglrun.batch.tried import TriedBackend
from sglrun.cli.backend import chosen_backend, offer_backend
from sglrun.cli.log import files_of, logging_to
from sglrun.cli.options import configured, with_settings
from sglrun.cli.streams import (
    ReaderGoneError,
    Streams,
    only_results_on_stdout,
)
from sglrun.errors import ProgramError, SglrunError, UsageError
from sglrun.interpreter.failure import Failure
from sglrun.interpreter.fan_out import auto_num_threads
from sglrun.interpreter.loader import load_program
from sglrun.interpreter.program import Program
from sglrun.interpreter.run import run_program
from sglrun.interpreter.state import ProgramState
from sglrun.interpreter.text_stream import GeneratedText

_GREEN, _PLAIN = "\x1b[32m", "\x1b[0m"


@with_settings("Backend", "Sampling", "Display", without=frozenset({"progress"}))
def run(
    ctx: typer.Context,
    program: Annotated[
        str, typer.Argument(metavar="PROGRAM", help="FILE.py, FILE.py:NAME or a module")
    ],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]...", help="Arguments, as texts."),
    ] = None,
    json_object: Annotated[
        str,
        typer.Option("--json", metavar="JSON", help="Arguments, as one JSON object."),
    ] = "",
    **options: object,
) -> None:
    """Run a program once, showing its text as it is generated.

    On a terminal the text is shown, what the model wrote in colour; else stdout gets
    the program's variables as one JSON object.
    """
    streams: Streams = ctx.obj
    streams.need_stdout()
    config = configured(streams, options)
    with (
        logging_to(streams, config.display, apart_from=files_of(program)),
        only_results_on_stdout(streams),
    ):
        offered = offer_backend(config)
        loaded = load_program(program)
        given = parse_arguments(loaded, arguments or (), json_object)
        meter = Meter()
        chosen = chosen_backend(config, offered)
        streams.secrets.add(chosen.secrets)
        backend = TriedBackend(
            chosen,
            max_in_flight=auto_num_threads(),
            retries=0,
            meter=meter,
            approximate=config.backend.allow_approximate,
        )
        try:
            state = run_program(
                loaded, given, backend=backend, sampling=config.sampling, stream=True
            )
            _show_text(state, streams, color=config.color)
        finally:
            backend.close()
        say_approximations(meter, streams)
    if not streams.out_is_terminal:
        line = streams.secrets.redacted_json(json_text(_outcome(state))) + "\n"
        streams.write(line.encode("utf-8", "backslashreplace"))
    if state.failure is not None:
        raise _as_error(state.failure)


def say_approximations(meter: Meter, streams: Streams) -> None:
    """Say what was not done exactly."""
    for said in meter.approximations:
        streams.say(f"sglrun: not exact: {said}")


def parse_arguments(
    program: Program, pairs: Iterable[str], json_object: str
) -> dict[str, Any]:
    """Return the arguments of a run as typed.

    Raises:
        UsageError: a pair without ``=``, no JSON object, or an argument missing.
    """
    arguments = _json_object(json_object) if json_object else {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not (equals and name):
            raise UsageError(f"{pair!r} is not an argument (write it as name=value)")
        arguments[name] = value
    try:
        program.check_arguments(arguments)
    except ProgramError as exc:
        raise UsageError(str(exc)) from exc
    return arguments


def _json_object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as exc:
        raise UsageError(f"--json: {text!r} is not JSON: {exc}") from exc
    if not isinstance(value, dict):
        raise UsageError(f"--json: {text!r} is not a JSON object")
    return value


def _show_text(state: ProgramState, streams: Streams, *, color: bool) -> None:
    """Read the text to its end, writing it to the terminal if there is one."""
    write = _terminal(streams)
    last = "\n"
    try:
        for piece in state.text_pieces():
            colored = color and isinstance(piece, GeneratedText)
            write(f"{_GREEN}{piece}{_PLAIN}" if colored else piece)
            last = piece[-1:]
    except ReaderGoneError:
        raise
    except BaseException as exc:
        # The first cause of the program's failure ends its text, too, be it an exit.
        if state.failure is None or exc is not state.failure.cause:
            raise
    if last != "\n":
        write("\n")


def _terminal(streams: Streams) -> Callable[[str], None]:
    """Return what writes to the terminal: stdout, else stderr, else nothing."""
    if streams.out_is_terminal:
        return lambda text: streams.write(text.encode("utf-8", "replace"))
    if streams.err.isatty():
        return streams.show
    return lambda _text: None


def _outcome(state: ProgramState) -> dict[str, object]:
    """Return the variables by name, and the program's value where it returns one."""
    named = {
        name: value for name, value in state.variables().items() if name is not None
    }
    if state.ret_value is not None:
        named["return"] = state.ret_value
    return named


def _as_error(failure: Failure) -> SglrunError:
    """Return what a user is told about a program that failed."""
    cause = failure.cause
    known = isinstance(cause, SglrunError)
    kind = type(cause).__name__
    error = SglrunError(str(cause) if known else f"{kind}: {cause}".removesuffix(": "))
    if failure.where:
        error.add_note(f"at {failure.where}")
    if failure.variable:
        error.add_note(f"while generating {failure.variable!r}")
    for note in getattr(cause, "__notes__", ()):
        error.add_note(note)
    error.__cause__ = cause
    return error
