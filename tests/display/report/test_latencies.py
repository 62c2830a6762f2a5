"""Latencies: quantiles by their definition, and every row in one bar."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglrun.display.report.latencies import Latencies

SECONDS = st.lists(st.floats(0, 1e6, width=32), min_size=1, max_size=80)


def latencies(seconds: list[float]) -> Latencies:
    found = Latencies()
    for each in seconds:
        found.add(each)
    return found


@given(SECONDS, st.sampled_from([0.0, 0.5, 0.9, 0.99, 1.0]))
def test_a_quantile_is_a_row(seconds: list[float], part: float) -> None:
    """So many rows took no longer, and with fewer that would not hold."""
    value = latencies(seconds).quantile(part)
    within = sum(each <= value for each in seconds)

    assert value in seconds
    assert within >= part * len(seconds)
    assert sum(each < value for each in seconds) < max(1, part * len(seconds))


@given(SECONDS)
def test_every_row_stands_in_one_bar(seconds: list[float]) -> None:
    """Bars are few and round; only the slowest hundredth may lie beyond them."""
    spread = latencies(seconds).spread()
    digits = spread.step_s / 10 ** math.floor(math.log10(spread.step_s) + 1e-9)

    assert sum(spread.counts) + spread.beyond == len(seconds)
    assert len(spread.counts) <= 37
    assert spread.beyond <= 0.01 * len(seconds) + 1
    assert min(abs(digits - step) for step in (1, 2, 2.5, 5, 10)) < 1e-6


@pytest.mark.parametrize("seconds", [[], [0.0, 0.0]])
def test_nothing_took_no_time(seconds: list[float]) -> None:
    """Without rows, or with rows that took nothing, all is 0."""
    found = latencies(seconds)

    assert (found.quantile(0.5), found.quantile(0.99), len(found)) == (
        0,
        0,
        len(seconds),
    )
    assert sum(found.spread().counts) == len(seconds)
