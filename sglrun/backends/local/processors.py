"""The processors that this process may use."""

import math
import os
from pathlib import Path

_CGROUP_ROOT = Path("/sys/fs/cgroup")


def usable_processors() -> int:
    """Return how many processors the process may use: affinity and container quota."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        count = len(os.sched_getaffinity(0))
    else:
        count = os.cpu_count() or 1
    quota = cgroup_quota(_CGROUP_ROOT)
    return count if quota is None else max(1, min(count, math.floor(quota)))


def cgroup_quota(root: Path) -> float | None:
    """Return the processors that the control group at *root* allows, if it limits them.

    A container sees its own group at the root, in version 2 (``cpu.max``) or 1.
    """
    text = _read(root / "cpu.max")
    if text is None:
        quota = _read(root / "cpu" / "cpu.cfs_quota_us")
        period = _read(root / "cpu" / "cpu.cfs_period_us")
        text = f"{quota} {period}"
    words = text.split()
    try:
        quota_us, period_us = (int(word) for word in words)
    except ValueError:  # "max" means no limit
        return None
    return quota_us / period_us if quota_us > 0 and period_us > 0 else None


def _read(path: Path) -> str | None:
    try:
        return path.read_text("ascii")
    except OSError:
        return None
