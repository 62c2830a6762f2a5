"""The meter: what the requests of one row cost, how often they were tried, and how."""

import threading

from sglrun.backends.base import Usage


class Meter:
    """Counts of one row; its forks add from threads of their own."""

    def __init__(self) -> None:
        """Begin at nothing."""
        self._lock = threading.Lock()
        self._usage = Usage()
        self._replayed = Usage()
        self._attempts = 0
        self._inexact: dict[str, None] = {}

    @property
    def usage(self) -> Usage:
        """What the answered requests cost."""
        return self._usage

    @property
    def replayed(self) -> Usage:
        """What those of them cost that an earlier run had sent."""
        return self._replayed

    @property
    def attempts(self) -> int:
        """The most tries that one request took; 0 if none was sent."""
        return self._attempts

    def tried(self, attempts: int) -> None:
        """Note that a request is at its try number *attempts*, counted from 1."""
        with self._lock:
            self._attempts = max(self._attempts, attempts)

    @property
    def approximations(self) -> tuple[str, ...]:
        """What was not done exactly, in words, each once."""
        return tuple(self._inexact)

    def approximated(self, *said: str) -> None:
        """Note what is not done exactly."""
        with self._lock:
            self._inexact.update(dict.fromkeys(said))

    def add(self, usage: Usage) -> None:
        """Add what an answer cost."""
        with self._lock:
            self._usage += usage

    def replay(self, usage: Usage) -> None:
        """Add what an answer had cost in an earlier run."""
        with self._lock:
            self._usage += usage
            self._replayed += usage
            self._attempts = max(self._attempts, 1)
