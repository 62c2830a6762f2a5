"""A rate, by a clock that only the test moves."""

from hypothesis import given
from hypothesis import strategies as st

from sglrun.batch.rates import Rate, Sent


def sent_at(rate: Rate, amounts: list[float], gaps: list[float]) -> list[Sent]:
    """Send *amounts* as soon as *rate* lets them, but for *gaps* between."""
    now, sent = 1000.0, []
    for amount, gap in zip(amounts, gaps, strict=True):
        now += gap
        while (wait_s := rate.wait_s(amount, now)) > 0:
            now += wait_s
        sent.append(rate.send(amount, now))
    return sent


def most_in_a_minute(sent: list[Sent]) -> float:
    """Return the most that was sent in any 60 seconds, the last instant left out."""
    return max(
        sum(other.amount for other in sent if first.at <= other.at < first.at + 60)
        for first in sent
    )


@given(
    st.integers(1, 500),
    st.lists(st.tuples(st.integers(0, 600), st.floats(0, 90)), min_size=1),
)
def test_no_minute_has_more_than_the_rate(
    per_minute: int, asked: list[tuple[int, float]]
) -> None:
    """Whatever is sent when, no 60 seconds hold more than is allowed."""
    amounts, gaps = [float(amount) for amount, _ in asked], [gap for _, gap in asked]
    sent = sent_at(Rate(per_minute), amounts, gaps)

    assert most_in_a_minute(sent) <= per_minute + 1e-6


@given(
    st.integers(1, 300),
    st.lists(
        st.tuples(st.integers(1, 400), st.floats(0, 1), st.floats(0, 40)), min_size=1
    ),
)
def test_corrected_amounts_hold_too(
    per_minute: int, asked: list[tuple[int, float, float]]
) -> None:
    """What turns out to be less makes room at once, and never too much."""
    rate, now, sent = Rate(per_minute), 0.0, []
    for amount, share, gap in asked:
        now += gap
        while (wait_s := rate.wait_s(amount, now)) > 0:
            now += wait_s
        sent.append(rate.send(amount, now))
        rate.correct(sent[-1], amount * share, now)

    assert most_in_a_minute(sent) <= per_minute + 1e-6


@given(st.integers(1, 1200))
def test_a_rate_is_used_up(per_minute: int) -> None:
    """A sender that always has more sends what is allowed, evenly."""
    sent = sent_at(Rate(per_minute), [1.0] * (2 * per_minute), [0.0] * 2 * per_minute)
    took_s = sent[-1].at - sent[0].at

    assert took_s <= 120
    assert took_s >= 120 - 60 / per_minute - 1 - 1e-6


def test_a_second_may_go_at_once() -> None:
    """What is sent is spread over the minute: a second's worth first, then the pace."""
    sent = sent_at(Rate(600), [1.0] * 14, [0.0] * 14)

    assert [round(one.at - 1000, 3) for one in sent] == [0.0] * 11 + [0.1, 0.2, 0.3]


def test_more_than_a_minute_goes_alone() -> None:
    """A request that is larger than the rate waits for an empty minute."""
    rate = Rate(100)
    rate.send(1, 0.0)

    assert rate.wait_s(1000, 0.0) == 60.0

    rate.send(1000, 60.0)

    assert rate.wait_s(1, 60.0) == 60.0


def test_more_than_was_said_delays_the_next() -> None:
    """A request that took more than it said is paid for by those after it."""
    rate = Rate(100)
    sent = rate.send(10, 0.0)
    rate.correct(sent, 90, 5.0)

    assert rate.wait_s(20, 5.0) == 55.0


def test_a_late_correction_changes_no_later_minute() -> None:
    """What is known after a minute has passed counts no more."""
    rate = Rate(100)
    sent = rate.send(10, 0.0)
    rate.correct(sent, 100, 61.0)

    assert rate.wait_s(100, 120.0) == 0.0
