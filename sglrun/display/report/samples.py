"""The rows that a report shows: some that failed, the slowest, and some at random.

Memory is bounded: texts are cut when they are kept, and so many rows are kept.
"""

import heapq
import json
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from sglrun.backends.base import Usage
from sglrun.batch.recorded import Recorded
from sglrun.batch.results import ErrorInfo

MOST_FAILED, MOST_SLOW, MOST_SAMPLED = 50, 15, 12
_MOST_FIELDS = 12
_LONGEST = 700


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """The beginning of a text, and how much more there is."""

    text: str
    more: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRow:
    """A row as a report shows it.

    Attributes:
        index: the row's index.
        id: its id, if it has one.
        given: fields of the row, by name.
        output: variables, by name.
        error: why it failed, without the message.
        message: what that said.
        usage: what it cost.
        seconds: how long it took.
        attempts: the most tries of one request.
    """

    index: int
    id: Cut | None
    given: tuple[tuple[str, Cut], ...]
    output: tuple[tuple[str, Cut], ...]
    error: ErrorInfo | None
    message: Cut
    usage: Usage
    seconds: float
    attempts: int


class Samples:
    """Rows to show; which are random is the same for the same results."""

    def __init__(self) -> None:
        """Begin without rows."""
        self.failed: list[ShownRow] = []
        self._slowest: list[tuple[float, int, int, ShownRow]] = []
        self._sampled: list[ShownRow] = []
        self._seen = self._ok = 0
        self._random = random.Random(0)  # noqa: S311 - no secret

    def add(self, result: Recorded) -> None:
        """Keep *result*, or some of those before, or neither."""
        if result.error is None:
            self._sample(result)
        elif len(self.failed) < MOST_FAILED:
            self.failed.append(shown(result))
        self._seen += 1
        key = (result.seconds, -result.index, self._seen)
        if len(self._slowest) < MOST_SLOW:
            heapq.heappush(self._slowest, (*key, shown(result)))
        elif key > self._slowest[0][:3]:
            heapq.heapreplace(self._slowest, (*key, shown(result)))

    @property
    def slowest(self) -> Iterable[ShownRow]:
        """The rows that took longest, the slowest first."""
        return (row for *_, row in sorted(self._slowest, reverse=True))

    @property
    def sampled(self) -> Iterable[ShownRow]:
        """Rows at random that gave a value, by index."""
        return sorted(self._sampled, key=lambda row: row.index)

    def _sample(self, result: Recorded) -> None:
        self._ok += 1
        if len(self._sampled) < MOST_SAMPLED:
            self._sampled.append(shown(result))
            return
        place = self._random.randrange(self._ok)
        if place < MOST_SAMPLED:
            self._sampled[place] = shown(result)


def shown(result: Recorded) -> ShownRow:
    """Return *result* as it is shown, its texts cut."""
    return ShownRow(
        index=result.index,
        id=None if result.id is None else cut(result.id),
        given=_fields(result.given),
        output=_fields(result.output),
        error=None if result.error is None else replace(result.error, message=""),
        message=cut("" if result.error is None else result.error.message),
        usage=result.usage,
        seconds=result.seconds,
        attempts=result.attempts,
    )


def cut(value: object) -> Cut:
    """Return the beginning of *value* as text: JSON, if it is no text itself."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return Cut(text=text[:_LONGEST], more=max(0, len(text) - _LONGEST))


def _fields(values: Mapping[str, object]) -> tuple[tuple[str, Cut], ...]:
    kept = list(values.items())[:_MOST_FIELDS]
    more = len(values) - len(kept)
    fields = tuple((cut(name).text, cut(value)) for name, value in kept)
    return (*fields, ("…", cut(f"{more} more"))) if more else fields
