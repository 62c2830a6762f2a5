"""``sglrun script``: a whole script written for SGLang, with its own arguments."""

import runpy
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Annotated

import typer

from sglrun.batch.meter import Meter
from sglrun.batch.tried import TriedBackend
from sglrun.cli.backend import offer_backend
from sglrun.cli.log import files_of, logging_to
from sglrun.cli.options import configured, with_settings
from sglrun.cli.run import say_approximations
from sglrun.cli.streams import ReaderGoneError, Streams
from sglrun.errors import ProgramLoadError, SglrunError
from sglrun.interpreter.failure import raising_place
from sglrun.interpreter.fan_out import auto_num_threads
from sglrun.interpreter.global_config import global_config
from sglrun.interpreter.sglang.finder import serve_sglang

_LEFT_TO_THE_SCRIPT = frozenset({"num_threads", "precache", "progress", "schedule"})


@with_settings("Backend", "Speed", "Display", without=_LEFT_TO_THE_SCRIPT)
def script(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The script.")],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ARGS]...", help="Arguments of the script."),
    ] = None,
    *,
    replace_backends: Annotated[
        bool,
        typer.Option(
            "--replace-backends",
            help="Use this backend for every one that the script names.",
            rich_help_panel="Backend",
        ),
    ] = False,
    **options: object,
) -> None:
    """Run a whole script written for SGLang, its "import sglang" served by sglrun.

    What stands after FILE is the script's own. Where the script names no backend, and
    for sgl.Runtime(...), it runs on the one of these options.
    """
    streams: Streams = ctx.obj
    config = configured(streams, options)
    path = Path(file)
    if not path.is_file():
        what = "is a directory" if path.is_dir() else "does not exist"
        raise ProgramLoadError(f"the script {file!r} {what}")
    meter = Meter()
    global_config.prepare = partial(
        TriedBackend,
        meter=meter,
        approximate=config.backend.allow_approximate,
        max_in_flight=config.speed.max_in_flight or auto_num_threads(),
        retries=config.speed.retries,
        requests_per_minute=config.speed.rpm,
        tokens_per_minute=config.speed.tpm,
    )
    backend = offer_backend(config, prepare=global_config.prepare)
    global_config.default_backend = backend
    if replace_backends:
        global_config.offered_backend = backend
        global_config.replaces_backends = True
    with logging_to(streams, config.display, apart_from=files_of(file)):
        try:
            code = run_script(path, arguments or (), streams)
        finally:
            for used in (global_config.default_backend, backend):
                if used is not None:
                    used.close()
            global_config.prepare = None
        say_approximations(meter, streams)
    raise typer.Exit(code)


def run_script(path: Path, arguments: Sequence[str], streams: Streams) -> int:
    """Run the script at *path* as ``python`` would; return its exit code.

    A traceback begins with the script's own lines.

    Raises:
        SglrunError: the script did not catch it.
        ReaderGoneError: nobody reads what it prints.
    """
    serve_sglang()
    try:
        with _as_main(path, arguments):
            runpy.run_path(str(path), run_name="__main__")
            sys.stdout.flush()
    except SystemExit as exc:
        return _exit_code(exc, streams)
    except BrokenPipeError as exc:
        raise ReaderGoneError from exc
    except SglrunError as exc:
        place = raising_place(exc, str(path))
        if place is not None:
            exc.add_note(f"at {place}")
        raise
    except Exception as exc:  # noqa: BLE001 - shown as python shows it
        own = _from_script(exc.__traceback__, str(path))
        lines = traceback.format_exception(type(exc), exc, own)
        streams.show("".join(lines))
        return 1
    return 0


@contextmanager
def _as_main(path: Path, arguments: Sequence[str]) -> Iterator[None]:
    """Let the process look as if it had been started with the script."""
    before, folder = sys.argv, str(path.resolve().parent)
    sys.argv = [str(path), *arguments]
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.argv = before
        if folder in sys.path:
            sys.path.remove(folder)


def _exit_code(exc: SystemExit, streams: Streams) -> int:
    if exc.code is None or isinstance(exc.code, int):
        return exc.code or 0
    streams.say(str(exc.code))
    return 1


def _from_script(trace: TracebackType | None, path: str) -> TracebackType | None:
    """Return the part of *trace* that begins in the script."""
    step = trace
    while step is not None and step.tb_frame.f_code.co_filename != path:
        step = step.tb_next
    return step or trace
