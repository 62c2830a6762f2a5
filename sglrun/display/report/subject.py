"""The subject of a report: results, and what else is known of the run."""

from dataclasses import dataclass

from sglrun.backends.base import Usage
from sglrun.batch.past_run import PastRun
from sglrun.display.report.findings import Findings


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What a report is about.

    Attributes:
        name: the results, as a user calls them.
        findings: what they tell.
        unread: lines of them that are no results.
        run: what the manifest tells, where there is one.
        total: rows of the input, where they could be counted.
        cost: what the tokens cost, where prices are known.
        made: when the report is made, for people.
        version: of this program.
    """

    name: str
    findings: Findings
    unread: int = 0
    run: PastRun | None = None
    total: int | None = None
    cost: float | None = None
    made: str = ""
    version: str = ""

    @property
    def left(self) -> int | None:
        """Rows without a result, where that is known."""
        if self.run is not None and self.run.complete:
            return 0
        return None if self.total is None else max(0, self.total - self.findings.rows)

    @property
    def usage(self) -> Usage:
        """What was read and written in all, the shared prefix included."""
        last = None if self.run is None else self.run.last
        sent = None if last is None else last.prefix.usage
        return self.findings.usage if sent is None else self.findings.usage + sent
