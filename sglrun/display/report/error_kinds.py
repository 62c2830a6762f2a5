"""The kinds of errors of a run: alike but for numbers and quoted texts.

Memory is bounded: beyond 1,000 kinds, new ones are only counted.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from sglrun.batch.recorded import Recorded

_MOST_KINDS = 1000
_EXAMPLES = 3
_LONGEST = 600
# The first that fits; a quote within a word is an apostrophe.
_VARYING = re.compile(r"""(?<!\w)'[^'\n]*'(?!\w)|"[^"\n]*"|\b0x[0-9a-f]+\b|\d+""")


@dataclass(slots=True, kw_only=True)
class ErrorKind:
    """Errors of one kind.

    Attributes:
        type: the class of the first cause.
        where: the author's line, as ``prog.py:12``.
        variable: the variable that was being generated, of the first.
        count: how many rows failed so.
        examples: messages that differ, with the row of each; a few.
    """

    type: str
    where: str | None
    variable: str | None
    count: int = 0
    examples: dict[str, int] = field(default_factory=dict)


class ErrorKinds:
    """Counts failed rows by kind.

    Attributes:
        others: rows whose kind is not kept.
    """

    def __init__(self) -> None:
        """Begin without errors."""
        self._kinds: dict[tuple[str, str, str | None], ErrorKind] = {}
        self.others = 0

    def add(self, result: Recorded) -> None:
        """Count *result*, if it failed."""
        error = result.error
        if error is None:
            return
        message = error.message[:_LONGEST]
        key = (error.type, shape(message), error.where)
        if key not in self._kinds:
            if len(self._kinds) >= _MOST_KINDS:
                self.others += 1
                return
            self._kinds[key] = ErrorKind(
                type=error.type, where=error.where, variable=error.variable
            )
        kind = self._kinds[key]
        kind.count += 1
        if len(kind.examples) < _EXAMPLES:
            kind.examples.setdefault(message, result.index)

    def most_common(self) -> Iterable[ErrorKind]:
        """Return the kinds, the most frequent first."""
        return sorted(self._kinds.values(), key=lambda kind: kind.count, reverse=True)


def shape(message: str) -> str:
    """Return *message* with one sign for each number and each quoted text."""
    return _VARYING.sub("#", message)
