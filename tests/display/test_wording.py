"""Numbers as people read them."""

import pytest

from sglrun.display import wording


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (0, "0"),
        (9999, "9,999"),
        (12_345, "12.3k"),
        (999_999, "1.00M"),
        (4_560_000, "4.56M"),
    ],
)
def test_counts_are_short(number: int, expected: str) -> None:
    """A large count is told in thousands or millions."""
    assert wording.count(number) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.84, "0.8 s"),
        (9.99, "10.0 s"),
        (59.6, "1:00"),
        (65, "1:05"),
        (7209, "2:00:09"),
        (273_600, "3 d 4 h"),
    ],
)
def test_durations(seconds: float, expected: str) -> None:
    """A duration is told as a clock tells it."""
    assert wording.duration(seconds) == expected


@pytest.mark.parametrize(
    ("per_second", "expected"),
    [
        (250, "250/s"),
        (12.34, "12.3/s"),
        (0.5, "30.0/min"),
        (0.001, "3.6/h"),
        (0, "0.0/h"),
    ],
)
def test_rates(per_second: float, expected: str) -> None:
    """A slow rate is told per minute or per hour."""
    assert wording.rate(per_second) == expected


@pytest.mark.parametrize(
    ("part", "whole", "expected"),
    [(0, 0, "0%"), (1, 1000, "<1%"), (999, 1000, "99%"), (1000, 1000, "100%")],
)
def test_shares_do_not_round_up_to_all(part: int, whole: int, expected: str) -> None:
    """100% is all, 0% is nothing."""
    assert wording.share(part, whole) == expected
