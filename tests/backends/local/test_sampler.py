"""The sampler."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from sglrun.backends.local.context import Logits
from sglrun.backends.local.sampler import Mask, Sampler, _index_at, log_total
from sglrun.errors import BadRequestError
from sglrun.lang.sampling import DEFAULTS, SamplingParams

LOGITS = np.log(np.array([0.1, 0.4, 0.2, 0.3], np.float32))
END = 3


def sampler(number: int = 0, prompt: Iterable[int] = (), **sampling: Any) -> Sampler:
    return Sampler(
        SamplingParams.of(**sampling).over(DEFAULTS),
        number=number,
        prompt=prompt,
        ends=frozenset({END}),
    )


def draws(
    drawer: Sampler, count: int = 300, logits: Logits = LOGITS, mask: Mask | None = None
) -> list[int]:
    return [drawer.draw(logits, mask) for _ in range(count)]


@pytest.mark.parametrize("sampling", [{"temperature": 0}, {"top_k": 1}])
def test_greedy_takes_the_likeliest(sampling: dict[str, Any]) -> None:
    """Temperature 0 and ``top_k`` 1 always give the likeliest token."""
    assert set(draws(sampler(**sampling), 20)) == {1}


def test_draws_follow_the_probabilities() -> None:
    """At temperature 1 tokens come as often as the model says."""
    counts = Counter(draws(sampler(seed=1), 4000))

    for token, share in enumerate([0.1, 0.4, 0.2, 0.3]):
        assert counts[token] / 4000 == pytest.approx(share, abs=0.03)


@pytest.mark.parametrize(
    ("sampling", "left"),
    [
        ({"top_k": 2}, {1, 3}),
        ({"top_p": 0.5}, {1, 3}),
        ({"top_p": 0.4}, {1}),
        ({"top_p": 0.75}, {1, 2, 3}),
        ({"top_k": 3, "top_p": 0.5}, {1, 3}),
        ({"min_p": 0.6}, {1, 3}),
        ({"temperature": 1e-3}, {1}),
        ({"top_p": 1e-9}, {1}),
    ],
)
def test_unlikely_tokens_are_left_out(sampling: dict[str, Any], left: set[int]) -> None:
    """``top_k``, ``top_p`` and ``min_p`` keep the likeliest tokens, together too."""
    assert set(draws(sampler(seed=2, **sampling))) == left


def test_the_nucleus_may_be_large() -> None:
    """A flat distribution keeps its share of tokens, however many they are."""
    flat = np.zeros(5000, np.float32)
    drawn = draws(sampler(seed=3, top_p=0.5), 3000, flat)

    assert max(drawn) < 2500
    assert len(set(drawn)) > 1500


def test_the_seed_decides() -> None:
    """The same seed and number draw the same; another of either does not."""
    first = draws(sampler(seed=5))

    assert draws(sampler(seed=5)) == first
    assert draws(sampler(seed=-6)) != first
    assert draws(sampler(seed=5, number=1)) != first
    assert draws(sampler()) != draws(sampler())


def test_prompts_draw_apart() -> None:
    """With one seed, the same prompt draws the same, and each other its own."""
    firsts = Counter(
        sampler(seed=5, prompt=(1, number)).draw(LOGITS, None) for number in range(400)
    )
    again = draws(sampler(seed=5, prompt=(1, 2)))

    assert firsts[1] / 400 == pytest.approx(0.4, abs=0.1)
    assert draws(sampler(seed=5, prompt=iter((1, 2)))) == again
    assert draws(sampler(seed=5, prompt=(2, 1))) != again


def test_only_allowed_tokens_are_drawn() -> None:
    """A mask holds, also over what a ban or a bias would have it."""
    mask = np.array([True, False, False, False])
    only_end = np.array([False, False, False, True])

    assert set(draws(sampler(seed=1), 20, mask=mask)) == {0}
    assert sampler(temperature=0, min_new_tokens=5).draw(LOGITS, only_end) == END


def test_the_text_does_not_end_too_early() -> None:
    """Tokens that end the text are not drawn before ``min_new_tokens`` others."""
    drawn = draws(sampler(seed=4, min_new_tokens=50), 200)

    assert END not in drawn[:50]
    assert END in drawn[50:]


def test_a_stop_token_that_there_is_not_ends_nothing() -> None:
    """One beyond the vocabulary, or below it, bans no other token."""
    drawer = Sampler(
        SamplingParams.of(seed=1, min_new_tokens=50).over(DEFAULTS),
        number=0,
        prompt=(),
        ends=frozenset({END, 4, 10**30, -1, -2}),
    )

    assert set(draws(drawer, 50)) == {0, 1, 2}


@pytest.mark.parametrize("temperature", [0, 1e-3, 1])
@pytest.mark.parametrize(
    ("sampling", "drawn"),
    [
        ({"logit_bias": {"2": 1e300}}, {2}),
        ({"logit_bias": {"2": 10**400}}, {2}),
        ({"logit_bias": {"1": -(10**400)}, "top_k": 1}, {3}),
        ({"repetition_penalty": 1e-40}, {0, 1, 2, 3}),
    ],
)
def test_what_is_too_much_is_as_much_as_there_is(
    sampling: dict[str, Any], drawn: set[int], temperature: float
) -> None:
    """Numbers that no score can take are followed as far as scores reach."""
    drawer = sampler(seed=1, prompt=(1, 2), temperature=temperature, **sampling)

    assert set(draws(drawer, 30, LOGITS + np.float32(5))) <= drawn


@pytest.mark.parametrize("more", [{}, {"temperature": 0}, {"top_k": 2}, {"top_p": 0.5}])
def test_where_every_token_is_ruled_out_none_is_drawn(more: dict[str, Any]) -> None:
    """The error says what rules them out."""
    drawer = Sampler(
        SamplingParams.of(seed=1, min_new_tokens=5, **more).over(DEFAULTS),
        number=0,
        prompt=(),
        ends=frozenset(range(4)),
    )
    with pytest.raises(BadRequestError, match=r"every token .* min_new_tokens"):
        drawer.draw(LOGITS, None)


def test_penalties_count_what_was_drawn() -> None:
    """Frequency grows with each draw, presence does not, repetition sees the prompt."""
    frequency = sampler(temperature=0, frequency_penalty=0.5)
    presence = sampler(temperature=0, presence_penalty=2.0)
    repetition = sampler(temperature=0, repetition_penalty=2.0, prompt=(1,))

    assert draws(frequency, 4) == [1, 3, 1, 2]
    assert draws(presence, 5) == [1, 3, 2, 0, 1]
    assert draws(repetition, 2) == [3, 2]


def test_a_bias_is_added() -> None:
    """``logit_bias`` moves a token's logit."""
    assert sampler(temperature=0, logit_bias={0: 5.0}).draw(LOGITS, None) == 0


def test_the_logits_stay_as_they_are() -> None:
    """Drawing changes nothing in the logits, which other readers share."""
    before = LOGITS.copy()
    draws(sampler(seed=1, top_p=0.9, frequency_penalty=1.0, logit_bias={1: -3.0}), 5)

    assert np.array_equal(before, LOGITS)


def test_log_probabilities_are_exact() -> None:
    """They differ from what double precision gives by less than a millionth."""
    for spread in (0.1, 3, 30):
        logits = np.random.default_rng(1).normal(50, spread, 49152).astype(np.float32)
        exact = logits.astype(np.float64)
        total = float(np.log(np.exp(exact - exact.max()).sum()) + exact.max())

        assert log_total(logits) == pytest.approx(total, abs=1e-6)
    assert log_total(LOGITS + 100) == pytest.approx(100, abs=1e-5)


def test_draws_from_a_large_vocabulary_follow_the_probabilities() -> None:
    """Whatever the block it lies in; what is ruled out is never drawn."""
    logits = np.full(1000, -np.inf, np.float32)
    shares = {3: 0.1, 255: 0.2, 256: 0.3, 999: 0.4}
    for token, share in shares.items():
        logits[token] = np.log(share)
    counts = Counter(draws(sampler(seed=6), 4000, logits))

    assert set(counts) == set(shares)
    for token, share in shares.items():
        assert counts[token] / 4000 == pytest.approx(share, abs=0.03)


@pytest.mark.parametrize("part", [0.0, 0.3, 0.6, 1 - 2**-53])
def test_a_draw_at_the_edge_takes_what_may_be_drawn(part: float) -> None:
    """The last and the first number that may be drawn are no token of no weight."""
    weights = np.zeros(700, np.float32)
    weights[[10, 300]] = 0.1, 0.7

    assert _index_at(weights, part) == (10 if part < 0.125 else 300)
