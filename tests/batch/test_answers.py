"""Answers as text."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sglrun.backends.base import (
    Completion,
    Request,
    Sample,
    Selection,
    SelectRequest,
    Usage,
)
from sglrun.batch.answers import Answer, kept, parse_kept, request_digest
from sglrun.lang.choices import ChoiceScore, TokenLogprob
from sglrun.lang.prompt import ImageData, Prompt
from sglrun.lang.sampling import DEFAULTS, SamplingParams

# Half of a surrogate pair among them: a model may stop inside a character.
TEXT = st.text(st.characters(codec=None))
NUMBER = st.floats(allow_nan=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | NUMBER | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
    max_leaves=5,
)
USAGE = st.builds(Usage, requests=st.integers(0), prompt_tokens=st.integers(0))
SAMPLE = st.builds(
    Sample, text=TEXT, finish_reason=TEXT, meta_info=st.dictionaries(TEXT, JSON)
)
COMPLETION = st.builds(
    Completion, samples=st.lists(SAMPLE, min_size=1).map(tuple), usage=USAGE
)
TOKEN = st.builds(TokenLogprob, NUMBER, st.integers(0), TEXT)
SCORE = st.builds(
    ChoiceScore,
    choice=TEXT,
    tokens=st.lists(TOKEN, min_size=1).map(tuple),
    unconditional=st.none() | st.lists(NUMBER).map(tuple),
)
SELECTION = st.builds(
    Selection,
    scores=st.lists(SCORE).map(tuple),
    chosen=st.none() | TEXT,
    usage=USAGE,
)


@settings(max_examples=40)
@given(COMPLETION | SELECTION, st.binary(min_size=16, max_size=16))
def test_an_answer_comes_back_as_it_was(answer: Answer, request: bytes) -> None:
    """What is kept of an answer is all of it, on one line."""
    written = kept(request, answer)

    assert written is not None
    assert written.line.count(b"\n") == 1
    assert parse_kept(written.line) == (request, answer)


def test_a_number_that_is_not_finite_comes_back() -> None:
    """Log-probabilities may be minus infinity."""
    token = TokenLogprob(-math.inf, 1, "x")
    answer = Selection(
        scores=(ChoiceScore(choice="x", tokens=(token,)),), usage=Usage()
    )
    written = kept(bytes(16), answer)

    assert written is not None
    assert parse_kept(written.line)[1] == answer


def test_what_json_cannot_hold_is_not_kept() -> None:
    """An answer with a value of another kind is not kept at all."""
    sample = Sample(text="", finish_reason="stop", meta_info={"x": object()})

    assert kept(bytes(16), Completion(samples=(sample,), usage=Usage())) is None


CHAT = (
    Prompt().with_role_begin("user").with_text("ab").with_role_end("user").with_text("")
)
IMAGE = ImageData(data=b"1")
REQUEST = Request(prompt=CHAT, sampling=DEFAULTS)
CHOICE = SelectRequest(prompt=CHAT, choices=("a", "bc"))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (REQUEST, replace(REQUEST, prompt=CHAT.with_text("x"))),
        (REQUEST, replace(REQUEST, prompt=Prompt().with_text(CHAT.text))),
        (REQUEST, replace(REQUEST, branch=(0,))),
        (replace(REQUEST, branch=(1, 0)), replace(REQUEST, branch=(0, 1))),
        (
            REQUEST,
            replace(REQUEST, sampling=SamplingParams.of(seed=1).over(DEFAULTS)),
        ),
        (
            replace(REQUEST, sampling=SamplingParams.of(logit_bias={1: 1.0})),
            replace(REQUEST, sampling=SamplingParams.of(logit_bias={1: 2.0})),
        ),
        (REQUEST, CHOICE),
        (CHOICE, replace(CHOICE, choices=("ab", "c"))),
        (CHOICE, replace(CHOICE, unconditional=True)),
        (
            replace(REQUEST, prompt=CHAT.with_role_begin("user").with_image(IMAGE)),
            replace(
                REQUEST,
                prompt=CHAT.with_role_begin("user").with_image(ImageData(data=b"2")),
            ),
        ),
    ],
)
def test_requests_are_told_apart(
    one: Request | SelectRequest, other: Request | SelectRequest
) -> None:
    """Whatever differs in two requests, their digests differ."""
    assert request_digest(one) != request_digest(other)
    assert request_digest(one) == request_digest(replace(one))
