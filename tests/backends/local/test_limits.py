"""What a model can never be asked, whatever the prompt."""

from typing import Any

import pytest

from sglrun.backends.local.limits import Limits, stop_patterns
from sglrun.errors import BadRequestError
from sglrun.lang.sampling import DEFAULTS, SamplingParams

LIMITS = Limits(vocabulary=100, length=64)


def complete(**sampling: Any) -> SamplingParams:
    return SamplingParams.of(**{"max_new_tokens": 8, **sampling}).over(DEFAULTS)


@pytest.mark.parametrize(
    "sampling",
    [
        {"max_new_tokens": 63},
        {"min_new_tokens": 8},
        {"logit_bias": {0: 1, 99: -1}},
        {"stop_token_ids": [100, 10**6], "min_new_tokens": 2},
        {"top_logprobs_num": 100, "return_logprob": True},
        {"top_logprobs_num": 101},
        {"stop_regex": "a+"},
    ],
)
def test_what_can_be_done_passes(sampling: dict[str, Any]) -> None:
    """Up to the edge all is well, and so is what is never looked at."""
    LIMITS.check(complete(**sampling))


@pytest.mark.parametrize(
    ("sampling", "words"),
    [
        ({"max_new_tokens": 64}, r"max_new_tokens=64 .* the 64 tokens of the model"),
        ({"logit_bias": {100: 1}}, r"logit_bias of token 100: .* from 0 to 99"),
        (
            {"top_logprobs_num": 101, "return_logprob": True},
            r"top_logprobs_num=101 .* the 100 tokens",
        ),
        ({"stop_regex": ["a", "(a"]}, r"stop_regex '\(a'"),
    ],
)
def test_what_cannot_be_done_is_refused(sampling: dict[str, Any], words: str) -> None:
    """The parameter is named, with its value and what there is."""
    with pytest.raises(BadRequestError, match=words):
        LIMITS.check(complete(**sampling))


def test_lengths_that_meet_only_in_a_request_are_compared() -> None:
    """A gen's least length may be over the run's greatest."""
    own, run = SamplingParams.of(min_new_tokens=9), SamplingParams.of(max_new_tokens=8)

    with pytest.raises(BadRequestError, match=r"min_new_tokens=9 .* max_new_tokens=8"):
        LIMITS.check(own.over(run, DEFAULTS))


def test_room_that_was_not_given_can_be() -> None:
    """Where the model could hold more, the option that gives it is named."""
    narrow = Limits(vocabulary=100, length=64, is_narrowed=True)

    with pytest.raises(BadRequestError, match=r"of --ctx-size: .*raise that"):
        narrow.check(complete(max_new_tokens=64))


@pytest.mark.parametrize(("count", "words"), [(0, "no tokens"), (64, "leaves no room")])
def test_a_choice_has_tokens_and_room(count: int, words: str) -> None:
    """An option of none has nothing to score, one too long has no prompt."""
    LIMITS.check_option("x", 63)

    with pytest.raises(BadRequestError, match=words):
        LIMITS.check_option("x", count)


def test_patterns_are_compiled() -> None:
    """Each in its order."""
    assert [one.pattern for one in stop_patterns(("a", "b"))] == ["a", "b"]
