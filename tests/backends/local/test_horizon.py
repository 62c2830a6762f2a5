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


def test_no_document_is_given_up_before_anything_is_known() -> None:
    """Long runs are all kept at first; short ones have to prove themselves."""
    assert learned(computed=8191).oldest(256) == 0
    assert learned(computed=8191).oldest(255) == 8191 - 1024
    assert learned(computed=8192).oldest(256) == 8192 - 1024


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
    assert learned(*reused).oldest(300) == 20_000 - kept_for


def test_what_was_given_up_too_soon_is_missed() -> None:
    """A run that is computed again counts as used again, as far as it is the same."""
    horizon = learned()
    document = tuple(range(2000))
    for turn in range(60):
        begun = horizon.computed
        horizon.note_given_up((*document, turn), begun)
        horizon.computed += 3000
        horizon.note_new((*document[:1500], -1))
        horizon.note_new((*document[:15], -1))

    assert horizon.oldest(300) == horizon.computed - 4096
    assert horizon._reused[2] == 60 * 1501


def test_what_was_given_up_is_remembered_for_a_while() -> None:
    """The memory of it does not grow for ever."""
    horizon = learned()
    for number in range(6000):
        horizon.note_given_up((number,) * 16, 0)
    horizon.note_new((1,) * 16)
    horizon.note_new((5999,) * 16)

    assert len(horizon._given_up) == 4095
    assert sum(horizon._reused) == 16
