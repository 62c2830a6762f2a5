"""The machine: how many of its processors and how much memory are for this process."""

import ctypes
import math
import mmap
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

# In version 2 and 1: the limit, what is taken, and what of it files take that were
# read and could be dropped.
_MEMORY_FILES = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def usable_processors() -> int:
    """Return how many processors the process may use: affinity and container quota."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        count = len(os.sched_getaffinity(0))
    else:
        count = os.cpu_count() or 1
    quota = ControlGroups().processors()
    return count if quota is None else max(1, min(count, math.floor(quota)))


def usable_memory() -> int | None:
    """Return how many bytes the process may still take, or ``None`` if unknown.

    What the system could free for it counts, and swap, within the limits of its
    control groups. Where the system does not tell (macOS), the whole of its memory.
    """
    free = _free_memory(Path("/proc/meminfo"))
    left = ControlGroups().memory()
    known = [each for each in (free, left) if each is not None]
    return min(known) if known else None


def give_back(address: int, size: int) -> None:
    """Let the system take the pages of *size* bytes at *address* until they are used.

    What stood there is lost. Where the system does not do it, nothing happens.
    """
    page = mmap.PAGESIZE
    start, end = -(-address // page) * page, (address + size) // page * page
    if hasattr(mmap, "MADV_DONTNEED") and start < end:
        advise = ctypes.CDLL(None).madvise
        advise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), mmap.MADV_DONTNEED)


@dataclass(frozen=True, slots=True)
class ControlGroups:
    """The limits that Linux sets to groups of processes, in version 2 or 1.

    A container sees its own group at the root. Elsewhere (a service, a job of a batch
    system) the process is told its group, and the limits of those around it hold too.

    Attributes:
        root: where they are mounted.
        told: the file that tells the groups of this process.
    """

    root: Path = Path("/sys/fs/cgroup")
    told: Path = Path("/proc/self/cgroup")

    def processors(self) -> float | None:
        """Return how many processors they allow, if they limit them."""
        quotas = [
            _quota(_read(group / "cpu.max"))
            or _quota(
                f"{_read(group / 'cpu.cfs_quota_us')} "
                f"{_read(group / 'cpu.cfs_period_us')}"
            )
            for group in self._around("cpu")
        ]
        return min((quota for quota in quotas if quota is not None), default=None)

    def memory(self) -> int | None:
        """Return how many bytes more they allow, if they limit them."""
        left = [
            _left(group, *names)
            for group in self._around("memory")
            for names in _MEMORY_FILES
        ]
        return min((each for each in left if each is not None), default=None)

    def _around(self, controller: str) -> Iterator[Path]:
        """Yield the groups whose limits of *controller* hold."""
        mounts = {"": self.root}  # of version 2, which all controllers share
        mounts[controller] = self.root / controller
        yield from mounts.values()
        for line in _read(self.told).splitlines():
            _, _, rest = line.partition(":")
            controllers, _, path = rest.partition(":")
            parts = PurePosixPath(path).parts[1:]
            for name in {controller, ""}.intersection(controllers.split(",")):
                for depth in range(1, len(parts) + 1):
                    yield mounts[name].joinpath(*parts[:depth])


def _quota(text: str) -> float | None:
    try:
        quota_us, period_us = (int(word) for word in text.split())
    except ValueError:  # "max" means no limit
        return None
    return quota_us / period_us if quota_us > 0 and period_us > 0 else None


def _left(group: Path, limit: str, taken: str, droppable: str) -> int | None:
    try:
        most, now = int(_read(group / limit)), int(_read(group / taken))
    except ValueError:
        return None
    stat = _numbers(_read(group / "memory.stat"))
    return max(0, most - now + stat.get(droppable, 0))


def _free_memory(told: Path) -> int | None:
    kilobytes = _numbers(_read(told).replace(":", " "))
    if "MemAvailable" in kilobytes:
        return 1024 * (kilobytes["MemAvailable"] + kilobytes.get("SwapFree", 0))
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not a system that we run on
        return None


def _numbers(text: str) -> dict[str, int]:
    lines = [line.split() for line in text.splitlines()]
    return {
        words[0]: int(words[1])
        for words in lines
        if len(words) > 1 and words[1].isdigit()
    }


def _read(path: Path) -> str:
    try:
        return path.read_text("ascii", errors="replace")
    except OSError:
        return ""
