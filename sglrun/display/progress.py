"""Progress: what is shown on stderr while a run lasts."""

import importlib
from collections.abc import Callable, Mapping
from typing import Protocol

from sglrun.display.meter import Meter
from sglrun.display.plain import PlainProgress, json_line, text_line
from sglrun.display.stderr import QuietStream


class Progress(Protocol):
    """A display of a run's progress."""

    def start(self) -> None:
        """Begin to show."""

    def stop(self) -> None:
        """End, and leave the terminal clean."""


class NoProgress:
    """A display that shows nothing."""

    def start(self) -> None:
        """Show nothing."""

    def stop(self) -> None:
        """Have shown nothing."""


def _rich(meter: Meter, stream: QuietStream) -> Progress:
    # rich takes as long to load as everything else, so only a terminal pays for it.
    live = importlib.import_module("sglrun.display.live")
    progress: Progress = live.LiveProgress(meter, stream)
    return progress


_DISPLAYS: Mapping[str, Callable[[Meter, QuietStream], Progress]] = {
    "rich": _rich,
    "plain": lambda meter, stream: PlainProgress(meter, stream, text_line),
    "json": lambda meter, stream: PlainProgress(meter, stream, json_line),
    "none": lambda _meter, _stream: NoProgress(),
}


def create_progress(name: str, meter: Meter, stream: QuietStream) -> Progress:
    """Return the display called *name*: ``rich``, ``plain``, ``json`` or ``none``."""
    return _DISPLAYS[name](meter, stream)


def choose_progress(asked: str, stream: QuietStream, *, dumb: bool) -> str:
    """Return the display to use where a user asked for *asked*, perhaps ``auto``.

    Args:
        asked: the setting.
        stream: where it is shown.
        dumb: the terminal cannot move its cursor.
    """
    if asked == "auto":
        return "rich" if stream.isatty() and not dumb else "plain"
    return asked
