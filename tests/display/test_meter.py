"""The meter of a run."""

import pytest

from sglrun.backends.base import Usage
from sglrun.display.meter import Meter
from sglrun.display.snapshot import Snapshot, plain_line


class Clock:
    """A clock that is set by hand."""

    now = 100.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def test_rows_and_tokens_add_up() -> None:
    """What is added is counted: rows by outcome, and their tokens."""
    meter = Meter(clock=Clock())
    meter.expect(10)
    meter.resume(4)
    meter.add(ok=True, usage=Usage(prompt_tokens=10))
    meter.add(ok=False, usage=Usage(prompt_tokens=5))
    snapshot = meter.snapshot()

    assert (snapshot.ok, snapshot.failed, snapshot.resumed) == (1, 1, 4)
    assert (snapshot.done, snapshot.total) == (6, 10)
    assert snapshot.usage == Usage(prompt_tokens=15)


def test_the_rate_is_that_of_late() -> None:
    """After a slow start the rate is that of the last half minute."""
    clock = Clock()
    meter = Meter(clock=clock)
    clock.now += 1000
    for _ in range(600):
        clock.now += 0.1
        meter.add(ok=True, usage=Usage())

    assert meter.snapshot().rate == pytest.approx(10, rel=0.05)


def test_the_rate_falls_while_nothing_ends() -> None:
    """A run that stalls slows down in what is shown, too."""
    clock = Clock()
    meter = Meter(clock=clock)
    for _ in range(10):
        clock.now += 1
        meter.add(ok=True, usage=Usage())
    clock.now += 90
    snapshot = meter.snapshot()

    assert snapshot.rate == pytest.approx(0.1)
    assert snapshot.idle_s == 90
    assert snapshot.stalled


@pytest.mark.parametrize(
    ("snapshot", "expected"),
    [
        (Snapshot(), "0 rows"),
        (Snapshot(ok=1, rate=0.5), "1 row, 30.0/min"),
        (
            Snapshot(ok=40, failed=2, resumed=8, total=1000, in_flight=96, rate=5),
            "50/1,000 rows (5%), 2 failed, 96 in flight, 5.0/s, 3:10 left",
        ),
        (
            Snapshot(ok=5, total=10, in_flight=5, rate=1, idle_s=61),
            "5/10 rows (50%), 5 in flight, no row ended for 1:01",
        ),
        (
            Snapshot(ok=10, total=10, usage=Usage(prompt_tokens=100, cached_tokens=85)),
            "10/10 rows (100%), 85% of 100 prompt tokens cached",
        ),
    ],
)
def test_a_line_says_what_there_is_to_say(snapshot: Snapshot, expected: str) -> None:
    """A line names what is known, and nothing that is not."""
    assert plain_line(snapshot) == expected
