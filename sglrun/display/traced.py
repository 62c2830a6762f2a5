"""A trace report: what ``sglrun trace`` shows, as data."""

from dataclasses import dataclass

from sglrun.interpreter.tracing.node_json import graph_json
from sglrun.interpreter.tracing.tracer import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedText:
    """Text that prompts begin with.

    Attributes:
        text: the text, with the markup of its chat template.
        tokens: how many tokens it is.
        rows: the prompts that were compared; 0 where it is known without any.
    """

    text: str
    tokens: int
    rows: int = 0

    def as_json(self) -> dict[str, object]:
        """Return it as JSON values."""
        facts: dict[str, object] = {"rows": self.rows} if self.rows else {}
        return facts | {
            "text": self.text,
            "characters": len(self.text),
            "tokens": self.tokens,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceReport:
    """What is known of a program before it runs.

    Attributes:
        program: its name.
        trace: what the trace found.
        prefix: what all rows share, whatever they are.
        rows: what the first rows share, where there are any.
        counted_by: who counted the tokens.
    """

    program: str
    trace: Trace
    prefix: SharedText
    rows: SharedText | None
    counted_by: str

    def as_json(self) -> dict[str, object]:
        """Return it as JSON values."""
        ends = self.trace.prefix
        return {
            "program": self.program,
            "prefix": self.prefix.as_json(),
            "ends": {
                "where": ends.where,
                "reason": ends.ended_by,
                "advice": ends.advice,
            },
            **({} if self.rows is None else {"rows": self.rows.as_json()}),
            "counted_by": self.counted_by,
            "graph": graph_json(self.trace.graph),
        }
