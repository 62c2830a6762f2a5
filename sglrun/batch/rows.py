"""Rows: lines of the input, as values and as they were written."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sglrun.errors import RowError


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the input that is not blank.

    Attributes:
        index: 0-based among the rows.
        line: 1-based among all lines.
        content: the line's bytes, without white space around it.
        fields: name to value.
        raw: name to the value's JSON text, exactly as it was written.
        error: why the line is no row, if so; it has no fields then.
    """

    index: int
    line: int
    content: bytes
    fields: Mapping[str, object] = field(default_factory=dict)
    raw: Mapping[str, str] = field(default_factory=dict)
    error: RowError | None = None
