"""The interruption of a run by a signal: the first drains, the second leaves."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_EXIT_BASE = 128


class Interrupt:
    """What signals did to a run.

    Attributes:
        signal_number: the first signal; 0 while there was none.
    """

    def __init__(
        self,
        *,
        drain: Callable[[signal.Signals], None],
        abandon: Callable[[], None],
        grace_s: float,
    ) -> None:
        """Prepare; nothing is caught before the block of ``caught``.

        Args:
            drain: called by the first signal; must not wait.
            abandon: called when the grace is over, in a thread of its own.
            grace_s: how long the rows in flight may take after the first signal.
        """
        self.signal_number = 0
        self._drain = drain
        self._timer = threading.Timer(grace_s, abandon)
        self._timer.name = "sglrun-grace"
        self._timer.daemon = True

    @contextmanager
    def caught(self) -> Iterator[None]:
        """Catch signals in the block; ignored ones, as under nohup, stay ignored."""
        before = {
            number: signal.signal(number, self._handle)
            for number in _SIGNALS
            if signal.getsignal(number) is not signal.SIG_IGN
        }
        try:
            yield
        finally:
            self._timer.cancel()
            for number, handler in before.items():
                signal.signal(number, handler)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if self.signal_number:
            # The journal is whole after every row, so nothing has to be tidied.
            os._exit(_EXIT_BASE + number)
        self.signal_number = number
        self._timer.start()
        self._drain(signal.Signals(number))
