"""The waiting line: jobs that have not begun, and whose turn it is.

A job of whose prompt more is known goes first, since what it needs may be given up
later; nobody is passed over by more than a fixed number of those that came later.
"""

from collections.abc import Callable, Iterator
from itertools import islice

from sglrun.backends.local.job import Job

# Jobs that are looked at for one turn.
_LOOK_AHEAD = 64
# Jobs that may come later and begin earlier.
_PATIENCE = 64


class WaitingLine:
    """Jobs in order of arrival."""

    def __init__(self) -> None:
        """Begin empty."""
        self._jobs: dict[Job, None] = {}

    def __bool__(self) -> bool:
        """Return whether anyone waits."""
        return bool(self._jobs)

    def __iter__(self) -> Iterator[Job]:
        """Yield the jobs in order of arrival."""
        return iter(tuple(self._jobs))

    def add(self, job: Job) -> None:
        """Let *job* wait as the last."""
        self._jobs[job] = None

    def add_first(self, job: Job) -> None:
        """Let *job*, which had begun, wait before all others."""
        self._jobs = {job: None, **self._jobs}

    def in_turn(self, known: Callable[[Job], int]) -> list[Job]:
        """Return the next jobs, best first; *known* tells how much of each is known."""
        first = tuple(islice(self._jobs, _LOOK_AHEAD))
        due = [job for job in first if _is_due(job)]
        rest = [job for job in first if not _is_due(job)]
        rest.sort(key=known, reverse=True)
        return due + rest

    def take(self, job: Job) -> None:
        """Take *job* out, since it begins."""
        for earlier in self._jobs:
            if earlier is job:
                break
            earlier.passed_over += 1
        del self._jobs[job]

    def remove(self, job: Job) -> None:
        """Take *job* out, since it is given up."""
        del self._jobs[job]

    def clear(self) -> None:
        """Take out all."""
        self._jobs.clear()


def _is_due(job: Job) -> bool:
    return job.was_read or job.passed_over >= _PATIENCE
