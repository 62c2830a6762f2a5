"""The processors that may be used."""

from pathlib import Path

import pytest

from sglrun.backends.local.processors import cgroup_quota, usable_processors


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({"cpu.max": "150000 100000\n"}, 1.5),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "200000", "cpu/cpu.cfs_period_us": "100000"}, 2.0),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        ({}, None),
        ({"cpu.max": "what\n"}, None),
    ],
)
def test_a_containers_quota_is_read(
    files: dict[str, str], quota: float | None, tmp_path: Path
) -> None:
    """The quota of a control group is read in both versions, and may be absent."""
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, "ascii")

    assert cgroup_quota(tmp_path) == quota


def test_at_least_one_processor_is_usable() -> None:
    """A process always has a processor."""
    assert usable_processors() >= 1
