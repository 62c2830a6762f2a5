"""What may be used of the machine."""

import mmap
import os
from pathlib import Path

import numpy as np
import pytest

from sglrun.backends.local.machine import (
    ControlGroups,
    give_back,
    usable_memory,
    usable_processors,
)

GIB = 1024**3


def groups(folder: Path, files: dict[str, str], told: str = "") -> ControlGroups:
    """Return the control groups that *files* in *folder* and the text *told* set."""
    for name, text in {**files, "told": told}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "ascii")
    return ControlGroups(root=folder, told=folder / "told")


@pytest.mark.parametrize(
    ("files", "told", "quota"),
    [
        ({"cpu.max": "150000 100000\n"}, "0::/\n", 1.5),
        ({"cpu.max": "150000 100000\n"}, "", 1.5),
        ({"cpu.max": "max 100000\n"}, "", None),
        ({"cpu/cpu.cfs_quota_us": "200000", "cpu/cpu.cfs_period_us": "100000"}, "", 2),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, "", None),
        ({}, "", None),
        ({"cpu.max": "what\n"}, "", None),
        # A service's own group, and the one around it.
        ({"a/b.slice/cpu.max": "300000 100000"}, "0::/a/b.slice\n", 3),
        (
            {"a/cpu.max": "200000 100000", "a/b/cpu.max": "400000 100000"},
            "0::/a/b\n",
            2,
        ),
        ({"elsewhere/cpu.max": "100000 100000"}, "0::/a/b\n", None),
        (
            {
                "cpu/job/cpu.cfs_quota_us": "100000",
                "cpu/job/cpu.cfs_period_us": "100000",
            },
            "5:cpuacct,cpu:/job\n4:memory:/other\n",
            1,
        ),
    ],
)
def test_a_quota_of_processors_is_read(
    files: dict[str, str], told: str, quota: float | None, tmp_path: Path
) -> None:
    """In both versions, of the process's own group and those around it, if any."""
    assert groups(tmp_path, files, told).processors() == quota


V1 = {
    "memory/job/memory.limit_in_bytes": f"{3 * GIB}\n",
    "memory/job/memory.usage_in_bytes": f"{2 * GIB}\n",
    "memory/job/memory.stat": f"cache 1\ntotal_inactive_file {GIB}\n",
}


@pytest.mark.parametrize(
    ("files", "told", "left"),
    [
        ({"memory.max": f"{GIB}\n", "memory.current": "24\n"}, "0::/\n", GIB - 24),
        ({"memory.max": "max\n", "memory.current": "24\n"}, "0::/\n", None),
        ({"memory.max": "10\n", "memory.current": "24\n"}, "0::/\n", 0),
        (
            {
                "memory.max": "1000\n",
                "memory.current": "900\n",
                "memory.stat": "anon 700\ninactive_file 150\n",
            },
            "0::/\n",
            250,
        ),
        (
            {
                "a/memory.max": "500\n",
                "a/memory.current": "100\n",
                "a/b/memory.max": "800\n",
                "a/b/memory.current": "100\n",
            },
            "0::/a/b\n",
            400,
        ),
        (V1, "4:memory:/job\n0::/\n", 2 * GIB),
        (V1, "4:memory:/other\n0::/\n", None),
        ({}, "", None),
    ],
)
def test_what_is_left_of_the_memory_is_read(
    files: dict[str, str], told: str, left: int | None, tmp_path: Path
) -> None:
    """The limit less what is taken, files that could be dropped excepted."""
    assert groups(tmp_path, files, told).memory() == left


def test_at_least_one_processor_is_usable() -> None:
    """A process always has a processor."""
    assert usable_processors() >= 1


def test_some_memory_is_usable() -> None:
    """As much as the machine has at most, swap aside."""
    memory = usable_memory()
    assert memory is not None
    assert memory > 0
    swaps = Path("/proc/swaps")
    if not swaps.exists() or swaps.read_text().count("\n") <= 1:
        assert memory <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="Linux tells")
def test_pages_are_given_back() -> None:
    """What is given back takes no memory, and reads as zeros."""
    size = 64 * 1024**2
    array = np.ones(size, np.uint8)
    before = resident_pages()
    give_back(array.ctypes.data, size)

    assert before - resident_pages() > size * 0.9 / mmap.PAGESIZE
    assert array[size // 2] == 0
    assert array.sum() < 2 * mmap.PAGESIZE, "but for the pages that are shared"


def resident_pages() -> int:
    """Return the pages of memory that this process takes."""
    return int(Path("/proc/self/statm").read_text().split()[1])
