"""Results: what became of each row."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from sglrun.backends.base import Usage
from sglrun.batch.rows import Row
from sglrun.errors import BackendError, ForkError
from sglrun.interpreter.failure import Failure

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
        where: the author's line, as ``prog.py:12``.
        line: the line of the input, where the row itself is at fault.
    """

    type: str
    message: str
    variable: str | None = None
    http_status: int | None = None
    retryable: bool = False
    where: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowResult:
    """What became of one row.

    Attributes:
        row: the row as it was read.
        id: the JSON text of the row's id, if it has one.
        rest: fields that the program does not take, name to JSON text.
        output: the program's variables in order of assignment, then ``return``.
        error: why it failed; ``None`` if it did not.
        usage: what its requests cost, in this run and before.
        replayed: what those of them cost that an earlier run had sent.
        cost: the usage in money, where prices are known.
        finish_reasons: why each generation ended, by variable.
        seconds: from its start to its end.
        attempts: the most tries that one of its requests took.
        approximations: what of it the backend could not do exactly, in words.
        extra: what ``include`` asked for.
        serial: the number under which its answers are kept; 0 if none are.
    """

    row: Row
    id: str | None = None
    rest: Mapping[str, str] = field(default_factory=dict)
    output: Mapping[str, object] = field(default_factory=dict)
    error: ErrorInfo | None = None
    usage: Usage = field(default_factory=Usage)
    replayed: Usage = field(default_factory=Usage)
    cost: float | None = None
    finish_reasons: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    attempts: int = 1
    approximations: tuple[str, ...] = ()
    extra: Mapping[Include, object] = field(default_factory=dict)
    serial: int = 0

    @property
    def ok(self) -> bool:
        """Whether the row has a value."""
        return self.error is None

    @property
    def spent(self) -> Usage:
        """What its requests cost in this run."""
        return self.usage - self.replayed if self.replayed.requests else self.usage

    @property
    def index(self) -> int:
        """The row's index."""
        return self.row.index


def error_info(failure: Failure) -> ErrorInfo:
    """Return what a result tells about *failure*."""
    cause = failure.cause
    asked = backend_cause(cause)
    return ErrorInfo(
        type=type(cause).__name__,
        message=str(cause) or type(cause).__name__,
        variable=failure.variable,
        http_status=None if asked is None else asked.http_status,
        retryable=asked is not None and asked.retryable,
        where=failure.where,
    )


def row_error_info(row: Row, error: Exception) -> ErrorInfo:
    """Return what a result tells about a *row* that cannot be run."""
    return ErrorInfo(type=type(error).__name__, message=str(error), line=row.line)


def backend_cause(error: BaseException) -> BackendError | None:
    """Return what a backend raised, where that is what *error* comes from."""
    cause: BaseException | None = error
    while isinstance(cause, ForkError):
        cause = cause.__cause__
    return cause if isinstance(cause, BackendError) else None
