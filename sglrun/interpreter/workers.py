"""Workers: the threads that generations of programs run in, beside the authors' code.

A fork of thousands of branches asks for thousands of generations at once; more threads
than a machine has room for would wait for the same model. What finds no thread free
waits in line, in order. No work in line is waited for by work that runs, so that the
line always moves; work that is begun by other work is begun at once all the same.
"""

import contextvars
import threading
from collections import deque
from collections.abc import Callable

MOST = 1024
"""Threads at once, over all programs of the process."""

Work = Callable[[], object]
"""What is to be run; it does not raise."""


class Workers:
    """Runs work in threads that end when nothing is left; safe from any thread."""

    def __init__(self, most: int) -> None:
        """Use at most so many threads."""
        self._most = most
        self._lock = threading.Lock()
        self._running = 0  # under the lock, as the line
        self._line: deque[Work] = deque()
        self._inside = threading.local()

    def run(self, work: Work) -> None:
        """Run *work* in a thread, now or in its turn; the caller's context goes along.

        Raises:
            RuntimeError: the system has no thread left, and none is at work here.
        """
        context = contextvars.copy_context()
        bound: Work = lambda: context.run(work)  # noqa: E731 - one name for both
        is_inside = getattr(self._inside, "is_working", False)
        with self._lock:
            if self._running >= self._most and not is_inside:
                self._line.append(bound)
                return
            self._running += 1
        thread = threading.Thread(
            target=self._work, args=(bound,), name="sglrun-program", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:
            with self._lock:
                self._running -= 1
                if self._running:  # those that run go on with it
                    self._line.append(bound)
                    return
            raise

    def _work(self, first: Work) -> None:
        self._inside.is_working = True
        work: Work | None = first
        while work is not None:
            work()
            work = self._next()

    def _next(self) -> Work | None:
        with self._lock:
            if self._line:
                return self._line.popleft()
            self._running -= 1
            return None


WORKERS = Workers(MOST)
"""Those of the process."""
