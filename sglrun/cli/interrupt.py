"""The interruption of a run by a signal: the first drains, the second leaves."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_EXIT_BASE = 128


@contextmanager
def caught_signals(drain: Callable[[signal.Signals], None]) -> Iterator[None]:
    """Call *drain* for the first signal in the block; leave at once for a second.

    Signals that are ignored, as under nohup, stay ignored.

    Args:
        drain: must not wait; it is called between any two steps of the main thread.
    """
    came = False

    def handle(number: int, _frame: FrameType | None) -> None:
        nonlocal came
        if came:
            # Every row that ended is written whole already: nothing has to be tidied.
            os._exit(_EXIT_BASE + number)
        came = True
        drain(signal.Signals(number))

    before = {
        number: signal.signal(number, handle)
        for number in _SIGNALS
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
