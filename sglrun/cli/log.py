"""The log: what sglrun tells of its work, and warnings, each said once."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from sglrun.backends.secrets import Secrets
from sglrun.cli.streams import Streams
from sglrun.config.settings import DisplaySettings
from sglrun.errors import ConfigError

logger = logging.getLogger("sglrun")

said = logger.getChild("said")
"""What a user is told anyway: it goes to the log file, and not to stderr again."""


@contextmanager
def logging_to(streams: Streams, display: DisplaySettings) -> Iterator[None]:
    """Send the log where *display* says, and warnings to stderr, while in the block.

    Raises:
        ConfigError: the log file cannot be written.
    """
    handlers = list(_handlers(streams, display))
    before = logger.level
    logger.setLevel(logging.DEBUG)
    for handler in handlers:
        logger.addHandler(handler)
    try:
        with warnings.catch_warnings():
            say = _Sayer(streams, quiet=display.quiet).say
            warnings.showwarning = say  # type: ignore[assignment]
            yield
    finally:
        logger.setLevel(before)
        for handler in handlers:
            logger.removeHandler(handler)
            handler.close()


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

    def say(self, message: Warning | str, *_about: object) -> None:
        text = str(message)
        if text in self._said:
            return
        self._said.add(text)
        said.warning("%s", text)
        if not self._quiet:
            self._streams.say(f"sglrun: warning: {text}")
