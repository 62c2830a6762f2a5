"""The progress of a batch that a script runs, on stderr.

On a terminal one line is written over itself; elsewhere there is one line at the end.
"""

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TextIO

from sglrun.interpreter.state import ProgramState

_EVERY_S = 0.1


def shown(
    states: Iterable[ProgramState],
    *,
    name: str,
    total: int,
    file: TextIO | None = None,
) -> Iterator[ProgramState]:
    """Iterate over *states* and show how many there were.

    Args:
        states: those of a batch, as they finish.
        name: the program's.
        total: how many there will be.
        file: where it is shown; stderr if it is not given.
    """
    file = file or sys.stderr
    lives = file.isatty()
    began, told = time.monotonic(), 0.0
    done = failed = 0

    def line() -> str:
        seconds = time.monotonic() - began
        failures = f", {failed:,} failed" if failed else ""
        return f"{name}: {done:,} of {total:,} in {seconds:.1f} s{failures}"

    try:
        for state in states:
            done += 1
            failed += state.failure is not None
            if lives and time.monotonic() - told > _EVERY_S:
                told = time.monotonic()
                file.write(f"\r{line()}\x1b[K")
                file.flush()
            yield state
    finally:
        file.write(f"\r{line()}\x1b[K\n" if lives else f"{line()}\n")
        file.flush()
