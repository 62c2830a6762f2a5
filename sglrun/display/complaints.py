"""The complaints of a run: distinct errors, how often, and where first."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from sglrun.batch.results import ErrorInfo

_MOST_KINDS = 1000
_VARYING = re.compile(r"\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """One kind of error: the first of it, and how many there were."""

    first: ErrorInfo
    count: int = 1


class Complaints:
    """Counts errors by kind; numbers in a message make no other kind.

    Memory is bounded: after 1,000 kinds, new ones are only counted.
    """

    def __init__(self) -> None:
        """Begin with none."""
        self._kinds: dict[tuple[str, str, str | None], Complaint] = {}
        self.others = 0

    def add(self, error: ErrorInfo) -> None:
        """Count *error*."""
        where = None if error.where is None else error.where.partition(":")[0]
        key = (error.type, _VARYING.sub("#", error.message), where)
        known = self._kinds.get(key)
        if known is not None:
            self._kinds[key] = replace(known, count=known.count + 1)
        elif len(self._kinds) < _MOST_KINDS:
            self._kinds[key] = Complaint(first=error)
        else:
            self.others += 1

    def __len__(self) -> int:
        """Return the number of kinds."""
        return len(self._kinds)

    def most_common(self, number: int) -> Iterator[Complaint]:
        """Return *number* kinds, the most frequent first."""
        ranked = sorted(
            self._kinds.values(), key=lambda complaint: complaint.count, reverse=True
        )
        return iter(ranked[:number])
