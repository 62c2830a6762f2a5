"""The summary: what came of a run."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

from sglrun.backends.base import Usage
from sglrun.batch.plan import Plan
from sglrun.batch.prices import Prices
from sglrun.batch.results import RowResult
from sglrun.batch.timeline import Timeline, Times
from sglrun.errors import SglrunError


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """What came of a run.

    Attributes:
        ok: rows that gave a value.
        failed: rows that gave an error.
        usage: what the rows cost in this run, without the shared prefix.
        replayed: requests of these rows that an earlier run had sent.
        plan: the shared prefix and what it cost.
        cut: generations that ended by ``length``.
        seconds: from the first row to the last.
        times: how many rows ended when.
        stopped_by: what ended the run before its last row.
        prices: what tokens cost, where that is known.
        lost: what requests may have cost that broke off or came too late.
    """

    ok: int = 0
    failed: int = 0
    usage: Usage = field(default_factory=Usage)
    replayed: int = 0
    plan: Plan = field(default_factory=Plan)
    cut: int = 0
    seconds: float = 0.0
    times: Times = field(default_factory=Times)
    stopped_by: SglrunError | None = None
    prices: Prices | None = None
    lost: Usage = field(default_factory=Usage)

    @property
    def whole_usage(self) -> Usage:
        """What the rows and the shared prefix cost."""
        return self.usage + self.plan.cost

    @property
    def cost(self) -> float | None:
        """The same in money, where prices are known."""
        return None if self.prices is None else self.prices.cost(self.whole_usage)

    @property
    def rows(self) -> int:
        """Rows that gave a result."""
        return self.ok + self.failed

    @property
    def predicted_cached_tokens(self) -> int:
        """Tokens that the shared prefix alone should have saved.

        Every request begins with it; what was measured is ``usage.cached_tokens``.
        """
        return 0 if self.plan.usage is None else self.plan.tokens * self.usage.requests

    @property
    def saved_tokens(self) -> int:
        """Tokens that were not computed again, less those of reading the prefix."""
        sent = self.plan.usage or Usage()
        return self.usage.cached_tokens - (sent.prompt_tokens - sent.cached_tokens)

    def facts(self) -> dict[str, object]:
        """Return what a manifest tells of the run, as JSON values."""
        plan, sent = self.plan, self.plan.usage
        return {
            "ok": self.ok,
            "failed": self.failed,
            "replayed": self.replayed,
            "cut": self.cut,
            "seconds": round(self.seconds, 3),
            "usage": asdict(self.usage),
            "cost": self.cost,
            "lost_requests": self.lost.requests,
            "prefix": {
                "characters": len(plan.text),
                "tokens": plan.tokens,
                "ended_by": plan.ended_by,
                "where": plan.where,
                "usage": None if sent is None else asdict(sent),
            },
            "predicted_cached_tokens": self.predicted_cached_tokens,
            "saved_tokens": self.saved_tokens,
            "times": asdict(self.times),
        }

    @property
    def exit_code(self) -> int:
        """The exit code of a command that did this."""
        if self.stopped_by is not None:
            return self.stopped_by.exit_code
        return 1 if self.failed else 0


class Tally:
    """Counts of a run; one thread adds, any thread looks."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin to measure now."""
        self._clock = clock
        self._began = clock()
        self._ended: float | None = None
        self._usage = Usage()
        self._replayed = 0
        self._cut = 0
        self._timeline = Timeline()
        self.ok = 0
        self.failed = 0

    @property
    def rows(self) -> int:
        """Rows counted."""
        return self.ok + self.failed

    def add(self, result: RowResult) -> None:
        """Count *result*."""
        if result.ok:
            self.ok += 1
        else:
            self.failed += 1
        self._timeline.add(self._clock() - self._began, ok=result.ok)
        self._usage += result.spent
        self._replayed += result.replayed.requests
        self._cut += sum(
            reason == "length" for reason in result.finish_reasons.values()
        )

    def end(self) -> None:
        """Measure no longer."""
        self._ended = self._clock()

    def summary(
        self,
        *,
        plan: Plan,
        stopped_by: SglrunError | None,
        prices: Prices | None = None,
        lost: Usage | None = None,
    ) -> RunSummary:
        """Return what was counted so far."""
        ended = self._clock() if self._ended is None else self._ended
        return RunSummary(
            ok=self.ok,
            failed=self.failed,
            usage=self._usage,
            replayed=self._replayed,
            plan=plan,
            cut=self._cut,
            seconds=ended - self._began,
            times=self._timeline.times,
            stopped_by=stopped_by,
            prices=prices,
            lost=lost or Usage(),
        )
