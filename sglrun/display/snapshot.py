"""The snapshot: where a run stands at one moment, and the words for it."""

from dataclasses import dataclass, field

from sglrun.backends.base import Usage
from sglrun.display import wording

_STALLED_S = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Where a run stands.

    Attributes:
        ok: rows that gave a value.
        failed: rows that gave an error.
        resumed: rows that were finished before this run began.
        total: all rows of the input, where it is known.
        in_flight: rows that are being worked on.
        usage: what the rows of this run cost so far.
        elapsed_s: since this run began.
        rate: rows per second of late.
        idle_s: since a row last ended.
        waiting: what all requests wait for, in words, if they do.
    """

    ok: int = 0
    failed: int = 0
    resumed: int = 0
    total: int | None = None
    in_flight: int | None = None
    usage: Usage = field(default_factory=Usage)
    elapsed_s: float = 0.0
    rate: float = 0.0
    idle_s: float = 0.0
    waiting: str = ""

    @property
    def done(self) -> int:
        """Rows that need no more work, those of earlier runs included."""
        return self.ok + self.failed + self.resumed

    @property
    def remaining_s(self) -> float | None:
        """The time until the last row at this rate, where both are known."""
        if self.total is None or self.rate <= 0:
            return None
        return max(0, self.total - self.done) / self.rate

    @property
    def stalled(self) -> bool:
        """Whether rows are being worked on and none has ended for a while."""
        return self.idle_s >= _STALLED_S


def position(snapshot: Snapshot) -> str:
    """Return how far the run is: ``412/1,000 rows``, or ``412 rows``."""
    if snapshot.total is None:
        return wording.of_many(snapshot.done, "row")
    return f"{snapshot.done:,}/{wording.of_many(snapshot.total, 'row')}"


def pace(snapshot: Snapshot) -> str:
    """Return how fast the run goes and when it may end, or what it waits for."""
    if snapshot.waiting:
        return snapshot.waiting
    if snapshot.stalled:
        return f"no row ended for {wording.duration(snapshot.idle_s)}"
    words = [f"{wording.rate(snapshot.rate)}"] if snapshot.rate else []
    if snapshot.remaining_s is not None and snapshot.done < (snapshot.total or 0):
        words.append(f"{wording.duration(snapshot.remaining_s)} left")
    return ", ".join(words)


def cached(usage: Usage) -> str:
    """Return the share of the prompt that was not computed again."""
    if not usage.prompt_tokens:
        return ""
    share = wording.share(usage.cached_tokens, usage.prompt_tokens)
    return f"{share} of {wording.count(usage.prompt_tokens)} prompt tokens cached"


def plain_line(snapshot: Snapshot) -> str:
    """Return one line for a log."""
    percent = (
        f" ({wording.share(snapshot.done, snapshot.total)})" if snapshot.total else ""
    )
    words = [
        f"{position(snapshot)}{percent}",
        f"{snapshot.failed:,} failed" if snapshot.failed else "",
        f"{snapshot.in_flight} in flight" if snapshot.in_flight else "",
        pace(snapshot),
        cached(snapshot.usage),
    ]
    return ", ".join(word for word in words if word)
