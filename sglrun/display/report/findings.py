"""The findings: what the results of a run tell, gathered one result at a time.

Memory grows by four bytes a row, for the latencies, and else is bounded.
"""

from dataclasses import dataclass, field

from sglrun.backends.base import Usage
from sglrun.batch.recorded import Recorded
from sglrun.display.report.error_kinds import ErrorKinds
from sglrun.display.report.latencies import Latencies
from sglrun.display.report.samples import Samples
from sglrun.display.report.variables import Variables


@dataclass(slots=True)
class Findings:
    """What results tell.

    Attributes:
        ok: rows that gave a value.
        failed: rows that gave an error.
        usage: what the rows cost.
        retried: rows with a request that was sent more than once.
        attempts: the most tries of one request.
        latencies: of the rows that asked a model.
        variables: why generations ended, and values that come often.
        errors: the kinds of errors.
        samples: rows to show.
    """

    ok: int = 0
    failed: int = 0
    usage: Usage = field(default_factory=Usage)
    retried: int = 0
    attempts: int = 0
    latencies: Latencies = field(default_factory=Latencies)
    variables: Variables = field(default_factory=Variables)
    errors: ErrorKinds = field(default_factory=ErrorKinds)
    samples: Samples = field(default_factory=Samples)

    @property
    def rows(self) -> int:
        """Rows that gave a result."""
        return self.ok + self.failed

    def add(self, result: Recorded) -> None:
        """Take *result* into account."""
        if result.error is None:
            self.ok += 1
        else:
            self.failed += 1
        self.usage += result.usage
        self.retried += result.attempts > 1
        self.attempts = max(self.attempts, result.attempts)
        if result.usage.requests:
            self.latencies.add(result.seconds)
        self.variables.add(result)
        self.errors.add(result)
        self.samples.add(result)
