"""Choices: the three methods and what they are made of."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglrun.lang.choices import (
    CHOICES_METHODS,
    ChoiceScore,
    ChoicesMethod,
    TokenLogprob,
    greedy_token_selection,
    softmax,
    token_length_normalized,
    unconditional_likelihood_normalized,
)


def option(
    choice: str, *logprobs: float, unconditional: tuple[float, ...] | None = None
) -> ChoiceScore:
    tokens = tuple(TokenLogprob(value, at, "t") for at, value in enumerate(logprobs))
    return ChoiceScore(choice=choice, tokens=tokens, unconditional=unconditional)


# The values that the reference's own tests use: two options begin with the same token.
ORGANS = (
    option("organ", -0.1, -0.1, unconditional=(0.0, 0.0)),
    option("organism", -0.1, -0.3, unconditional=(-1.0, -0.4)),
    option("antidisestablishmentarianism", -0.2, 0.1, unconditional=(0.0, 0.0)),
)


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        (token_length_normalized, "antidisestablishmentarianism"),
        (greedy_token_selection, "organ"),
        (unconditional_likelihood_normalized, "organism"),
    ],
)
def test_the_reference_check_values(method: ChoicesMethod, expected: str) -> None:
    """On the reference's three words each method picks the one that it is to pick."""
    assert method(ORGANS).choice == expected


def test_the_reference_scores() -> None:
    """The means and unconditional scores are the reference's numbers."""
    means = token_length_normalized(ORGANS).scores
    scores = unconditional_likelihood_normalized(ORGANS).scores

    assert means == pytest.approx((-0.1, -0.2, -0.05))
    assert scores == pytest.approx((-0.1, 0.5, -0.05))


def test_a_long_option_with_a_poor_beginning() -> None:
    """The mean weighs the whole option, the greedy method its first token."""
    two = (option(" yes", -0.5), option(" no way", -0.2, -1.5))

    assert token_length_normalized(two).choice == " yes"
    assert greedy_token_selection(two).choice == " no way"


def test_a_short_option_is_padded_with_its_mean() -> None:
    """Past its end an option is judged by its own mean."""
    decision = greedy_token_selection((option("a", -0.2), option("a b", -0.2, -0.3)))

    assert decision.choice == "a"
    assert decision.details["greedy_logprob_matrix"] == [[-0.2, -0.2], [-0.2, -0.3]]


@pytest.mark.parametrize("name", CHOICES_METHODS)
def test_all_zero_scores_take_the_first(name: str) -> None:
    """Log-probabilities of exactly 0 are scores like others, and the first wins."""
    zeros = tuple(option(text, 0.0, unconditional=(0.0,)) for text in "abc")

    assert CHOICES_METHODS[name](zeros).choice == "a"


def test_a_zero_is_not_dropped_from_the_mean() -> None:
    """A certain token counts in the mean."""
    assert option("x", 0.0, -2.0).mean == -1.0


@pytest.mark.parametrize("name", CHOICES_METHODS)
def test_no_options_is_an_error(name: str) -> None:
    """A method never decides among nothing."""
    with pytest.raises(ValueError, match="at least one choice"):
        CHOICES_METHODS[name](())


def test_missing_unconditional_scores_are_named() -> None:
    """The method that needs scores without the prompt says of which option."""
    with pytest.raises(ValueError, match="'organ' without the prompt"):
        unconditional_likelihood_normalized((option("organ", -1.0),))


def test_only_one_method_asks_for_unconditional_scores() -> None:
    """The flag that a backend reads is set where the method needs it."""
    asking = [
        name
        for name, method in CHOICES_METHODS.items()
        if method.requires_unconditional_logprobs
    ]

    assert asking == ["unconditional_likelihood_normalized"]


def test_temperature_draws_by_the_scores() -> None:
    """Above temperature 0 the choice is drawn, the likelier more often, by the seed."""
    two = (option("often", -0.1), option("rare", -2.1))
    drawn = [
        token_length_normalized(two, temperature=1.0, seed=seed).choice
        for seed in range(300)
    ]
    again = token_length_normalized(two, temperature=1.0, seed=7).choice

    assert 0.8 < drawn.count("often") / len(drawn) < 0.95
    assert again == drawn[7]


SCORES = st.lists(st.floats(-1e4, 0), min_size=1, max_size=8).map(tuple)


@given(SCORES)
def test_softmax_is_a_distribution_in_the_order_of_the_scores(
    scores: tuple[float, ...],
) -> None:
    """Probabilities add up to 1 and order the options as their scores do."""
    shares = softmax(scores)

    assert math.isclose(sum(shares), 1.0)
    assert shares[scores.index(max(scores))] == max(shares)


@given(
    st.lists(
        st.lists(st.floats(-20, 0), min_size=1, max_size=5), min_size=1, max_size=6
    ),
    st.sampled_from(sorted(CHOICES_METHODS)),
)
def test_the_first_of_the_best_is_taken(rows: list[list[float]], name: str) -> None:
    """Whatever the method, the option taken is the first with the highest score."""
    options = tuple(
        option(str(at), *row, unconditional=tuple(row)) for at, row in enumerate(rows)
    )
    decision = CHOICES_METHODS[name](options)

    assert decision.choice == str(decision.scores.index(max(decision.scores)))
    assert len(decision.probabilities) == len(rows)
