"""The interruption of a run by a signal: the first drains, the second leaves."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_EXIT_BASE = 128
_END = b"\0"
_TIDY_S = 0.5
_SAME_S = 0.5  # GNU timeout signals its child, then its group; wrappers pass ^C on


@contextmanager
def caught_signals(
    drain: Callable[[signal.Signals], None], tidy: Callable[[], None]
) -> Iterator[None]:
    """Call *drain* for the first signal in the block; leave at once for a second.

    The same signal, once more within half a second of the first, is still the first: it
    was sent twice, to the process and to its group.

    Both happen in a thread that waits for nothing but signals: Python would run a
    handler only when the main thread comes back from whatever it waits for, and could
    interrupt it in the midst of a write. Signals that are ignored, as under nohup, stay
    ignored.

    Args:
        drain: must not wait for the run.
        tidy: gives the terminal back before the process leaves; has half a second.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    before = {
        number: signal.signal(number, _wake)
        for number in _SIGNALS
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    wakeup = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    thread = threading.Thread(
        target=_watch, args=(reading, drain, tidy), name="sglrun-signals", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(wakeup)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.write(writing, _END)
        thread.join()
        os.close(reading)
        os.close(writing)


def _wake(_number: int, _frame: object) -> None:
    """Do nothing: the number of the signal is in the pipe already."""


def _watch(
    reading: int, drain: Callable[[signal.Signals], None], tidy: Callable[[], None]
) -> None:
    first = None
    same_until = 0.0
    while (came := os.read(reading, 1)) != _END:
        number = came[0]
        if number not in _SIGNALS:
            continue
        if number == first and time.monotonic() < same_until:
            continue
        if first is not None:
            # Every row that ended is written whole already. What stands in the way of
            # the terminal, as ^S does, must not hold the process.
            tidying = threading.Thread(target=tidy, name="sglrun-tidy", daemon=True)
            tidying.start()
            tidying.join(_TIDY_S)
            os._exit(_EXIT_BASE + number)
        first = number
        drain(signal.Signals(number))
        # From here on: what came while it was drained was not read before now.
        same_until = time.monotonic() + _SAME_S
