"""What a constrained generation writes."""

from dataclasses import replace

import pytest

from sglrun.backends.base import Request
from sglrun.backends.local.backend import LocalBackend
from sglrun.lang.prompt import Prompt
from sglrun.lang.sampling import DEFAULTS, SamplingParams

pytestmark = pytest.mark.engine

_PATTERN = "Name: [A-Z][a-z]{3}, age: [0-9]{2}, the city: [A-Z][a-z]{4}[.]"


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_seed_gives_one_text_with_and_without_log_probabilities(
    backend: LocalBackend, seed: int
) -> None:
    """Asking for log-probabilities changes nothing of what is drawn."""
    given = SamplingParams.of(
        regex=_PATTERN, temperature=1, seed=seed, max_new_tokens=60
    )
    plain = Request(prompt=Prompt(text="Who?"), sampling=given.over(DEFAULTS))
    scored = replace(plain, sampling=replace(plain.sampling, return_logprob=True))
    one = backend.generate(plain).samples[0]
    other = backend.generate(scored).samples[0]

    assert one.finish_reason == "stop"
    assert other.text == one.text
    assert other.meta_info["completion_tokens"] == one.meta_info["completion_tokens"]


def test_a_long_text_without_choice_is_written(backend: LocalBackend) -> None:
    """What must come is written whole, over as many steps as it takes."""
    sampling = SamplingParams.of(regex="a{1000}", max_new_tokens=400)
    request = Request(prompt=Prompt(text="A:"), sampling=sampling.over(DEFAULTS))

    assert backend.generate(request).samples[0].text == "a" * 1000


@pytest.mark.parametrize("return_logprob", [False, True])
def test_a_text_that_is_complete_ends_by_itself(
    backend: LocalBackend, *, return_logprob: bool
) -> None:
    """Also where it takes all of the tokens that it may have; half of it does not."""
    ends = []
    for length in (1, 2):
        sampling = SamplingParams.of(
            regex="(A|B)C{9}",
            temperature=0,
            max_new_tokens=12,
            return_logprob=return_logprob,
        )
        request = Request(prompt=Prompt(text="Say:"), sampling=sampling.over(DEFAULTS))
        whole = backend.generate(request).samples[0]
        count = int(str(whole.meta_info["completion_tokens"])) + 1 - length
        shorter = replace(request.sampling, max_new_tokens=count)
        ends.append(backend.generate(replace(request, sampling=shorter)).samples[0])

    assert ends[0].finish_reason == "stop"
    assert len(ends[0].text) == 10
    assert len(ends[1].text) < 10
    assert ends[1].finish_reason == "length"
