"""The horizon."""

import pytest

from sglrun.backends.local.horizon import Horizon

WORTH = 11_000


def learned(
    *reused: tuple[int, int], computed: int = 20_000, worth: int = WORTH
) -> Horizon:
    """Return a horizon that was told of *reused*: how many tokens, and how late."""
    horizon = Horizon(worth)
    for _ in range(4):
        horizon.advance(computed // 4)
    for tokens, age in reused:
        horizon.note_reuse(tokens, horizon.computed - age)
    horizon.computed = computed
    for _ in range(4):
        horizon.advance(0)
    return horizon


def test_no_document_is_given_up_before_anything_is_known() -> None:
    """Long runs are all kept at first; short ones have to prove themselves."""
    assert learned(computed=8249).oldest(256) == 0
    assert learned(computed=8249).oldest(255) == 8249 - 1024
    assert learned(computed=8250).oldest(256) == 8250 - 1024
    assert learned(computed=1499, worth=2000).oldest(256) == 0
    assert learned(computed=1500, worth=2000).oldest(256) == 1500 - 256


def test_where_it_costs_more_to_pass_over_less_is_kept() -> None:
    """Nothing is kept longer than pays if one of twelve runs is used again."""
    assert learned(worth=2000).oldest(300) == 20_000 - 256
    assert learned((5_000, 3000), worth=11_000).oldest(300) == 20_000 - 1024
    assert learned((50_000, 3000), worth=2_000).oldest(300) == 20_000 - 4096


def test_an_answer_is_kept_until_a_program_can_go_on_from_it() -> None:
    """For three steps, however many tokens they have, unless hardly any does."""
    horizon = Horizon(2000)
    for _ in range(10):
        horizon.advance(500)
    kept = horizon.oldest(60)
    for number in range(6):
        horizon.note_given_up((number,) * 60, 20, 4000)
    dropped = horizon.oldest(60)
    horizon.note_new((3,) * 60, 20)
    again = horizon.oldest(60)

    assert (kept, dropped, again) == (3500, 5000, 3500)


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
        horizon.note_given_up((*document, turn), 100, begun)
        for _ in range(4):
            horizon.advance(750)
        horizon.note_new((*document[:1500], -1), 50)
        horizon.note_new((*document[:15], -1), 0)
        horizon.note_new((-1, *document[:1500]), 0)

    assert horizon.oldest(300) == horizon.computed - 4096
    assert horizon._reused[2] == 60 * (1488 - 50)


def test_what_was_given_up_is_remembered_for_a_while() -> None:
    """The memory of it does not grow for ever."""
    horizon = learned()
    for number in range(20_000):
        horizon.note_given_up((number,) * 16, 0, 0)
    horizon.note_new((1,) * 16, 0)
    horizon.note_new((19_999,) * 16, 0)

    assert len(horizon._given_up) == 16_383
    assert sum(horizon._reused) == 16
