"""The horizon."""

import pytest

from sglrun.backends.local.horizon import Horizon


def learned(*reused: tuple[int, int], computed: int = 20_000) -> Horizon:
    """Return a horizon that was told of *reused*: how many tokens, and how late."""
    horizon = Horizon()
    horizon.computed = computed
    for tokens, age in reused:
        horizon.note_reuse(tokens, computed - age)
    return horizon


def test_nothing_is_given_up_before_anything_is_known() -> None:
    """The first tokens computed are all kept."""
    assert learned(computed=8191).oldest() == 0


@pytest.mark.parametrize(
    ("reused", "kept_for"),
    [
        ((), 1024),
        (((50_000, 10),), 1024),
        (((50_000, 3000),), 4096),
        (((50_000, 10), (50_000, 1025)), 2048),
        (((1_000, 3000),), 1024),
        (((50_000, 3000), (60_000, 20_000)), 32_768),
        (((50_000, 3000), (5_000, 20_000)), 4096),
        (((50_000, 40_000),), 1024),
    ],
)
def test_tokens_are_kept_as_long_as_that_pays(
    reused: tuple[tuple[int, int], ...], kept_for: int
) -> None:
    """A longer horizon needs enough that is used again so late; passing over costs."""
    assert learned(*reused).oldest() == 20_000 - kept_for
