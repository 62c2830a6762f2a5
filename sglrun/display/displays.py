"""The displays: progress by name."""

import importlib
from collections.abc import Callable, Mapping

from sglrun.display.meter import Meter
from sglrun.display.plain import PlainProgress, json_line, text_line
from sglrun.display.progress import Progress
from sglrun.display.stderr import QuietStream


def _rich(meter: Meter, stream: QuietStream) -> Progress:
    # rich takes as long to load as everything else, so only a terminal pays for it.
    live = importlib.import_module("sglrun.display.live")
    progress: Progress = live.LiveProgress(meter, stream)
    return progress


_DISPLAYS: Mapping[str, Callable[[Meter, QuietStream], Progress]] = {
    "rich": _rich,
    "plain": lambda meter, stream: PlainProgress(meter, stream, text_line),
    "json": lambda meter, stream: PlainProgress(meter, stream, json_line),
    "none": Progress,
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
