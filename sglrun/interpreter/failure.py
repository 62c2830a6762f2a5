"""A failure: the first cause of a program's end, and the author's line behind it."""

import contextlib
import os
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, TracebackType
from typing import NoReturn

# ``with s.user():`` leads here through Python's own context manager.
_NOT_AUTHORS = (
    f"{Path(__file__).parent.parent}{os.sep}",
    str(contextlib.__file__),
    "<frozen",
    "<string",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a program cannot go on.

    Attributes:
        cause: the first exception; every reader of the program gets this one.
        variable: the variable that was being generated, if any.
        where: the author's line, as ``prog.py:12``.
        in_body: the author's own code raised it.
        trace: the way that the cause had come when this was made.
    """

    cause: BaseException
    variable: str | None = None
    where: str | None = None
    in_body: bool = False
    trace: TracebackType | None = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Keep the way of the cause, to which each reader adds its own."""
        object.__setattr__(self, "trace", self.cause.__traceback__)

    def throw(self) -> NoReturn:
        """Raise the cause without the ways of those that it was raised to before."""
        raise self.cause.with_traceback(self.trace)


def calling_place(program_file: str = "") -> str | None:
    """Return the line that led here, as ``prog.py:12``.

    It is the innermost line of *program_file*, or the innermost outside sglrun.
    """
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - documented for this
    innermost = None
    while frame is not None:
        filename = frame.f_code.co_filename
        if innermost is None and _is_authors(filename):
            innermost = _place(filename, frame.f_lineno)
        if filename == program_file:
            return _place(filename, frame.f_lineno)
        frame = frame.f_back if program_file or innermost is None else None
    return innermost


def raising_place(exc: BaseException, program_file: str) -> str | None:
    """Return the line of *program_file* that raised *exc*, or the last outside sglrun.

    An error of Python's own parts is laid at the author's line that called them.
    """
    lines = [
        (frame.f_code.co_filename, line or frame.f_lineno)
        for frame, line in _walk(exc.__traceback__)
    ]
    if isinstance(exc, SyntaxError) and exc.filename:
        lines.append((exc.filename, exc.lineno or 0))
    for wanted in (lambda name: name == program_file, _is_authors):
        for filename, line in reversed(lines):
            if wanted(filename):
                return _place(filename, line)
    return None


def _walk(trace: TracebackType | None) -> Iterator[tuple[FrameType, int | None]]:
    return traceback.walk_tb(trace)


def _is_authors(filename: str) -> bool:
    return not filename.startswith(_NOT_AUTHORS)


def _place(filename: str, line: int) -> str:
    return f"{os.path.basename(filename)}:{line}"  # noqa: PTH119 - for each expression
