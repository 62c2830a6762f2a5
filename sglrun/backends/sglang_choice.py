"""A choice on SGLang's native wire: the options' own log-probabilities.

The prompt itself is scored beside the options, so that its last tokens are known as
this server reads them; where an option's tokens part from them, the option begins.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sglrun.backends.alignment import own_start
from sglrun.backends.reply import a_count, an_object
from sglrun.backends.sglang_wire import input_tokens
from sglrun.errors import ResponseError
from sglrun.lang.choices import ChoiceScore, TokenLogprob

Payload = dict[str, object]

# An option seldom changes more than the last token before it. Where it does, all of
# the prompt is scored.
_MARGIN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """The last tokens of a text, with the position of the first of them."""

    start: int
    tokens: tuple[TokenLogprob, ...]

    @property
    def ids(self) -> tuple[int, ...]:
        """The ids of the tokens."""
        return tuple(token.token_id for token in self.tokens)


def first_start(num_prompt_tokens: int) -> int:
    """Return the position from which options are scored at first."""
    return max(num_prompt_tokens - 1 - _MARGIN, 0)


def scoring_fields(start: int) -> Payload:
    """Return the fields that ask for log-probabilities from position *start* on."""
    return {
        "sampling_params": {"max_new_tokens": 0, "temperature": 0},
        "return_logprob": True,
        "return_text_in_logprobs": True,
        "logprob_start_len": start,
    }


def parse_scored(answer: Mapping[str, object]) -> Scored:
    """Return the tokens that *answer* scores.

    Where they begin is counted from the end: servers since 0.4.3 begin at the position
    asked for, with a null, and older ones at the next.

    Raises:
        ResponseError: the answer scores more tokens than the text has.
    """
    meta = an_object(answer.get("meta_info"), "meta_info")
    tokens = tuple(input_tokens(answer))
    start = a_count(meta.get("prompt_tokens")) - len(tokens)
    if start < 0:
        raise ResponseError(
            f"{len(tokens)} log-probabilities for {meta.get('prompt_tokens')} tokens"
        )
    return Scored(start=start, tokens=tokens)


def needs_all(prompt: Scored, options: Sequence[Scored]) -> bool:
    """Tell whether an option changes more of the prompt than was scored."""
    return any(
        one.start != prompt.start or (one.start > 0 and one.ids[:1] != prompt.ids[:1])
        for one in options
    )


def scores(
    choices: Sequence[str], prompt: Scored, options: Sequence[Scored]
) -> tuple[ChoiceScore, ...]:
    """Return the score of each of *choices*.

    Raises:
        BadRequestError: an option has no token of its own.
    """
    return tuple(
        score_from(one.start + own_start(prompt.ids, one.ids, choice), choice, one)
        for choice, one in zip(choices, options, strict=True)
    )


def score_from(start: int, choice: str, scored: Scored) -> ChoiceScore:
    """Return the score of *choice*, whose tokens in *scored* begin at *start*.

    Raises:
        ResponseError: its first tokens are not scored.
    """
    if start < scored.start:
        raise ResponseError(
            f"the tokens of {choice!r} are scored from {scored.start} on, and begin "
            f"at {start}"
        )
    return ChoiceScore(choice=choice, tokens=scored.tokens[start - scored.start :])


def with_unconditional(
    given: Sequence[ChoiceScore], answers: Sequence[Mapping[str, object]]
) -> tuple[ChoiceScore, ...]:
    """Return *given* with what *answers* say of the same tokens without the prompt.

    Raises:
        ResponseError: an answer scores other tokens.
    """
    return tuple(
        replace(score, unconditional=_unconditional(score, answer))
        for score, answer in zip(given, answers, strict=True)
    )


def _unconditional(
    score: ChoiceScore, answer: Mapping[str, object]
) -> tuple[float, ...]:
    found = parse_scored(answer).tokens
    missing = len(score.tokens) - len(found)
    if missing not in (0, 1):
        raise ResponseError(
            f"{len(found)} log-probabilities for the {len(score.tokens)} tokens of "
            f"{score.choice!r}"
        )
    # The first token has nothing before it; old servers leave it out.
    return (0.0,) * missing + tuple(token.logprob for token in found)
