"""The variables of a run: why their generations ended, and values that come often."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from sglrun.batch.recorded import Recorded

_MOST_VARIABLES = 200
_MOST_VALUES = 24
_LONGEST_VALUE = 80
_FEWEST_TIMES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """How often a variable had which value, the most frequent first."""

    name: str
    counts: tuple[tuple[str, int], ...]

    @property
    def total(self) -> int:
        """How often it had any."""
        return sum(count for _, count in self.counts)


class Variables:
    """Counts by variable; memory is bounded, whatever rows call their variables.

    Attributes:
        finish_reasons: variable to why its generations ended, with how often.
        others: generations of variables beyond those that are kept.
    """

    def __init__(self) -> None:
        """Begin without variables."""
        self.finish_reasons: dict[str, Counter[str]] = {}
        self.others = 0
        self._values: dict[str, Counter[str] | None] = {}  # None: too many

    def add(self, result: Recorded) -> None:
        """Count what *result* holds."""
        for name, reason in result.finish_reasons.items():
            if (
                name in self.finish_reasons
                or len(self.finish_reasons) < _MOST_VARIABLES
            ):
                self.finish_reasons.setdefault(name, Counter())[reason] += 1
            else:
                self.others += 1
        if result.error is None:
            self._count_values(result.output)

    def few_values(self) -> Iterator[Values]:
        """Return the variables that have few values, each several times."""
        for name, counts in self._values.items():
            if counts and counts.total() >= _FEWEST_TIMES * len(counts):
                yield Values(name=name, counts=tuple(counts.most_common()))

    def _count_values(self, output: Mapping[str, object]) -> None:
        for name, value in output.items():
            if name not in self._values:
                if len(self._values) >= _MOST_VARIABLES:
                    continue
                self._values[name] = Counter()
            counts = self._values[name]
            if counts is None:
                continue
            words = _words(value)
            if words is None:
                self._values[name] = None
                continue
            counts.update(words)
            if len(counts) > _MOST_VALUES:
                self._values[name] = None


def _words(value: object) -> Iterable[str] | None:
    """Return *value*, or each of a list, in words; ``None`` if they cannot be few."""
    values = value if isinstance(value, list) else [value]
    words = [_word(each) for each in values]
    known = [word for word in words if word is not None]
    return known if len(known) == len(words) else None


def _word(value: object) -> str | None:
    match value:
        case str() if len(value) <= _LONGEST_VALUE:
            return value
        case None | bool() | int():
            return json.dumps(value)
        case _:
            return None
