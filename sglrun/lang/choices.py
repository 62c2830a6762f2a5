"""Choices: how one option is taken from the log-probabilities of several.

The three methods are SGLang's; the numbers they work on are those of the option's own
tokens, and nothing of the prompt.
"""

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import fmean


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """One token and its natural-log probability."""

    logprob: float
    token_id: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceScore:
    """One option's tokens after the prompt, and the same tokens without it.

    Attributes:
        choice: the option's text.
        tokens: its tokens, given the prompt; never empty.
        unconditional: log-probabilities of the same tokens with no prompt (the first
            has nothing before it and counts as 0), where they were asked for.
    """

    choice: str
    tokens: tuple[TokenLogprob, ...]
    unconditional: tuple[float, ...] | None = None

    @property
    def mean(self) -> float:
        """The mean log-probability of a token, SGLang's length-normalized score."""
        return fmean(token.logprob for token in self.tokens)


@dataclass(frozen=True, slots=True)
class ChoicesDecision:
    """The option taken, with the score of each and what led to it."""

    choice: str
    scores: tuple[float, ...]
    details: Mapping[str, object] = field(default_factory=dict)

    @property
    def probabilities(self) -> tuple[float, ...]:
        """The scores as a distribution over the options (softmax)."""
        return softmax(self.scores)


@dataclass(frozen=True, slots=True)
class ChoicesMethod:
    """A rule that scores options; the highest wins, the first of equals.

    Attributes:
        name: what meta info and results call it.
        score: scores from the options, with details for meta info.
        requires_unconditional_logprobs: it needs ``ChoiceScore.unconditional``.
        needs_scores: what it takes need not be the likeliest option that a model
            writes.
    """

    name: str
    score: Callable[
        [tuple[ChoiceScore, ...]], tuple[tuple[float, ...], Mapping[str, object]]
    ]
    requires_unconditional_logprobs: bool = False
    needs_scores: bool = True

    def __call__(
        self,
        options: tuple[ChoiceScore, ...],
        *,
        temperature: float = 0.0,
        seed: int | None = None,
    ) -> ChoicesDecision:
        """Decide among *options*; above temperature 0 draw from their softmax.

        Raises:
            ValueError: no options, or unconditional log-probabilities are missing.
        """
        if not options:
            raise ValueError("select needs at least one choice")
        scores, details = self.score(options)
        best = max(range(len(scores)), key=scores.__getitem__)
        if temperature > 0:
            weights = softmax(tuple(score / temperature for score in scores))
            best = random.Random(seed).choices(range(len(scores)), weights)[0]  # noqa: S311 - sampling
        return ChoicesDecision(options[best].choice, scores, details)


def softmax(scores: tuple[float, ...]) -> tuple[float, ...]:
    """Return *scores* as probabilities that add up to 1."""
    top = max(scores)
    weights = [math.exp(score - top) for score in scores]
    total = sum(weights)
    return tuple(weight / total for weight in weights)


def _token_length_normalized(
    options: tuple[ChoiceScore, ...],
) -> tuple[tuple[float, ...], Mapping[str, object]]:
    return tuple(option.mean for option in options), {}


def _greedy_token_selection(
    options: tuple[ChoiceScore, ...],
) -> tuple[tuple[float, ...], Mapping[str, object]]:
    width = max(len(option.tokens) for option in options)
    matrix = [
        [token.logprob for token in option.tokens]
        + [option.mean] * (width - len(option.tokens))
        for option in options
    ]
    alive = list(range(len(options)))
    lasted = [0] * len(options)
    for column in range(width):
        top = max(matrix[row][column] for row in alive)
        alive = [row for row in alive if matrix[row][column] == top]
        for row in alive:
            lasted[row] += 1
    details = {"greedy_logprob_matrix": matrix}
    return tuple(float(count - width) for count in lasted), details


def _unconditional_likelihood_normalized(
    options: tuple[ChoiceScore, ...],
) -> tuple[tuple[float, ...], Mapping[str, object]]:
    scores, means = [], []
    for option in options:
        if option.unconditional is None:
            raise ValueError(
                "unconditional_likelihood_normalized needs the log-probabilities of "
                f"{option.choice!r} without the prompt"
            )
        means.append(fmean(option.unconditional))
        scores.append(option.mean - means[-1])
    return tuple(scores), {
        "unconditional_token_logprobs": [option.unconditional for option in options],
        "normalized_unconditional_prompt_logprobs": means,
    }


token_length_normalized = ChoicesMethod(
    "token_length_normalized", _token_length_normalized, needs_scores=False
)
greedy_token_selection = ChoicesMethod(
    "greedy_token_selection", _greedy_token_selection, needs_scores=False
)
unconditional_likelihood_normalized = ChoicesMethod(
    "unconditional_likelihood_normalized",
    _unconditional_likelihood_normalized,
    requires_unconditional_logprobs=True,
)

CHOICES_METHODS: Mapping[str, ChoicesMethod] = {
    method.name: method
    for method in (
        token_length_normalized,
        greedy_token_selection,
        unconditional_likelihood_normalized,
    )
}
