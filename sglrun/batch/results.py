"""Results: what became of each row."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from sglrun.backends.base import Usage
from sglrun.batch.rows import Row

Layout = Literal["record", "flat"]
Include = Literal["arguments", "text", "messages", "meta"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorInfo:
    """Why a row has no value.

    Attributes:
        type: the class of the first cause.
        message: what it said.
        variable: the variable that was being generated.
        http_status: the status of the server's answer.
        retryable: the same row may succeed later.
        where: the author's line, or the line of the input, as ``prog.py:12``.
    """

    type: str
    message: str
    variable: str | None = None
    http_status: int | None = None
    retryable: bool = False
    where: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowResult:
    """What became of one row.

    Attributes:
        row: the row as it was read.
        id: the JSON text of the row's id, if it has one.
        rest: fields that the program does not take, name to JSON text.
        output: the program's variables in order of assignment, then ``return``.
        error: why it failed; ``None`` if it did not.
        usage: what its requests cost.
        finish_reasons: why each generation ended, by variable.
        seconds: from its start to its end.
        attempts: the most tries that one of its requests took.
        extra: what ``include`` asked for.
    """

    row: Row
    id: str | None = None
    rest: Mapping[str, str] = field(default_factory=dict)
    output: Mapping[str, object] = field(default_factory=dict)
    error: ErrorInfo | None = None
    usage: Usage = field(default_factory=Usage)
    finish_reasons: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    attempts: int = 1
    extra: Mapping[Include, object] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether the row has a value."""
        return self.error is None

    @property
    def index(self) -> int:
        """The row's index."""
        return self.row.index
