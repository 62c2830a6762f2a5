"""The spending of earlier runs: what the lines of their results say."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields

from sglrun.backends.base import Usage
from sglrun.batch.records import DETAILS
from sglrun.batch.results import Layout
from sglrun.batch.run_files import RunFiles

_COUNTS = tuple(item.name for item in fields(Usage))


def spent_before(path: str, layout: Layout) -> Usage:
    """Return what earlier runs spent on the results at *path*; reads all of them.

    Failed rows count too. What a row had cost that a kill cut off is not there.
    """
    files = RunFiles.of(path)
    place = files.part if files.part_size else files.results
    try:
        with place.open("rb") as lines:
            return spent_in(lines, layout)
    except FileNotFoundError:
        return Usage()


def spent_in(lines: Iterable[bytes], layout: Layout) -> Usage:
    """Return the usage of all *lines*, rendered as *layout*; a torn one has none."""
    total = dict.fromkeys(_COUNTS, 0)
    for line in lines:
        usage = _usage(line, layout)
        for name in _COUNTS:
            count = usage.get(name)
            total[name] += count if isinstance(count, int) else 0
    return Usage(**total)


def _usage(line: bytes, layout: Layout) -> Mapping[str, object]:
    try:
        record = json.loads(line)
        details = record if layout == "record" else record[DETAILS]
        usage = details["usage"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    return usage if isinstance(usage, Mapping) else {}
