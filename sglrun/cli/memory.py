"""The memory of the process, which many threads share."""

import ctypes
from contextlib import suppress

_M_ARENA_MAX = -8


def share_memory() -> None:
    """Have what one thread let go of be used by any other; call it before threads.

    The C library of Linux gives threads heaps of their own, up to 8 for each core, and
    rows pass from thread to thread: each heap would grow to what all need together.
    Python lets one thread run at a time, so that none waits for the one heap. Elsewhere
    nothing is done.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)
