"""The log: what sglrun tells of its work, and warnings, each said once."""

import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sglrun.backends.secrets import Secrets
from sglrun.batch.run_files import RunFiles
from sglrun.batch.sources import STDIN
from sglrun.cli.streams import Streams
from sglrun.config.settings import DisplaySettings
from sglrun.errors import ConfigError, UsageError

logger = logging.getLogger("sglrun")

said = logger.getChild("said")
"""What a user is told anyway: it goes to the log file, and not to stderr again."""


@contextmanager
def logging_to(
    streams: Streams, display: DisplaySettings, *, apart_from: Iterable[str] = ()
) -> Iterator[None]:
    """Send the log where *display* says, and warnings to stderr, while in the block.

    Args:
        streams: those of the process.
        display: what is said, and where the log is written.
        apart_from: files that the log must not be one of.

    Raises:
        ConfigError: the log file cannot be written.
        UsageError: it is one of *apart_from*.
    """
    if display.log_file is not None:
        _need_own_file(display.log_file, apart_from)
    handlers = list(_handlers(streams, display))
    before = logger.level
    logger.setLevel(logging.DEBUG)
    for handler in handlers:
        logger.addHandler(handler)
    try:
        with _warnings_to(_Sayer(streams, quiet=display.quiet).say):
            yield
    finally:
        logger.setLevel(before)
        for handler in handlers:
            logger.removeHandler(handler)
            handler.close()


def files_of(
    program: str, inputs: str | None = None, output: str | None = None
) -> Iterator[str]:
    """Return the files that a command reads and writes, as far as names tell."""
    file, is_referred, _ = program.partition(".py:")
    yield f"{file}.py" if is_referred else program
    if inputs is not None:
        yield "/dev/stdin" if inputs == STDIN else inputs
    if output is not None:
        files = RunFiles.of(output)
        made = (files.results, files.part, files.steps, files.manifest)
        yield from map(str, made)


def _need_own_file(log_file: str, others: Iterable[str]) -> None:
    """Check that the log is none of *others*, by whatever name or link.

    Raises:
        UsageError: it is.
    """
    for other in others:
        if _is_same_file(log_file, other):
            raise UsageError(
                f"--log-file: {log_file!r} is what the command itself reads or writes; "
                "choose another file for the log"
            )


def _is_same_file(one: str, other: str) -> bool:
    try:
        # Many may use the same device.
        return os.path.samefile(one, other) and Path(one).is_file()  # noqa: PTH121
    except OSError:  # one is not there yet
        return os.path.realpath(one) == os.path.realpath(other)


@contextmanager
def _warnings_to(say: Callable[[Warning | str], None]) -> Iterator[None]:
    """Say warnings while in the block; a filter may turn others' into errors.

    Those of sglrun are said all the same: ``python -W error`` and a program's own
    filters are about the author's code.
    """
    warn = warnings.warn

    def said_or_raised(
        message: Warning | str,
        category: type[Warning] | None = None,
        stacklevel: int = 1,
        **more: Any,
    ) -> None:
        try:
            warn(message, category, stacklevel + 1, **more)
        except Warning as exc:
            caller = sys._getframe(1)  # noqa: SLF001 - documented for this
            if not caller.f_globals.get("__name__", "").startswith("sglrun."):
                raise
            say(exc)

    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_about: say(message)
        warnings.warn = said_or_raised  # type: ignore[assignment]
        try:
            yield
        finally:
            warnings.warn = warn


def _handlers(streams: Streams, display: DisplaySettings) -> Iterator[logging.Handler]:
    # Without a handler logging would write warnings to stderr by itself.
    yield logging.NullHandler()
    if display.verbose:
        handler = logging.StreamHandler(streams.err)
        handler.setFormatter(_Formatter("sglrun: %(message)s", streams.secrets))
        handler.addFilter(lambda record: record.name != said.name)
        yield handler
    if display.log_file is not None:
        try:
            file = _LogFile(
                display.log_file, encoding="utf-8", errors="backslashreplace"
            )
        except OSError as exc:
            raise ConfigError(
                f"--log-file: {display.log_file!r} cannot be written: {exc.strerror}"
            ) from exc
        file.setFormatter(
            _Formatter(
                "%(asctime)s %(levelname)s %(threadName)s %(message)s", streams.secrets
            )
        )
        yield file


class _LogFile(logging.FileHandler):
    """A file that may be full or gone; no run depends on its log."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - its name
        del record

    def close(self) -> None:
        with suppress(OSError):
            super().close()


class _Formatter(logging.Formatter):
    """Writes records without secrets."""

    def __init__(self, form: str, secrets: Secrets) -> None:
        super().__init__(form)
        self._secrets = secrets

    def format(self, record: logging.LogRecord) -> str:
        return self._secrets.redacted(super().format(record))


class _Sayer:
    """Says a warning the first time that it is given."""

    def __init__(self, streams: Streams, *, quiet: bool) -> None:
        self._streams = streams
        self._quiet = quiet
        self._said: set[str] = set()

    def say(self, message: Warning | str) -> None:
        text = str(message)
        if text in self._said:
            return
        self._said.add(text)
        said.warning("%s", text)
        if not self._quiet:
            self._streams.say(f"sglrun: warning: {text}")
