"""Sampling parameters."""

from dataclasses import fields
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglrun.lang.sampling import DEFAULTS, SamplingParams

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "max_new_tokens": st.integers(64, 4096),
    "min_new_tokens": st.integers(0, 64),
    "n": st.integers(1, 8),
    "stop": st.lists(st.text(max_size=3), max_size=3),
    "stop_token_ids": st.lists(st.integers(0, 99), max_size=3),
    "stop_regex": st.lists(st.text(max_size=3), max_size=3),
    "temperature": st.floats(0, 2),
    "top_p": st.floats(0.01, 1),
    "top_k": st.sampled_from([-1, 1, 40]),
    "min_p": st.floats(0, 1),
    "frequency_penalty": st.floats(-2, 2),
    "presence_penalty": st.floats(-2, 2),
    "repetition_penalty": st.floats(0.01, 2),
    "logit_bias": st.dictionaries(st.integers(0, 9), st.floats(-1, 1), max_size=2),
    "seed": st.integers(0, 9),
    "ignore_eos": st.booleans(),
    "regex": st.text(max_size=3),
    "json_schema": st.just("{}"),
    "ebnf": st.text(max_size=3),
    "return_logprob": st.booleans(),
    "logprob_start_len": st.integers(-1, 9),
    "top_logprobs_num": st.integers(0, 9),
    "return_text_in_logprobs": st.booleans(),
    "extra": st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
}


@st.composite
def params(draw: st.DrawFn) -> SamplingParams:
    """Draw parameters with any fields set."""
    names = draw(st.sets(st.sampled_from(sorted(VALUES)), max_size=6))
    return SamplingParams.of(**{name: draw(VALUES[name]) for name in names})


def test_every_field_is_drawn() -> None:
    """The laws below are tried on every parameter that exists."""
    assert set(VALUES) == {field.name for field in fields(SamplingParams)}


@given(params(), params())
def test_what_is_set_wins_and_nothing_is_unset(
    above: SamplingParams, below: SamplingParams
) -> None:
    """Laying over keeps all that the upper sets, and of the lower what is left."""
    assert above.over(below).given() == {**below.given(), **above.given()}


@given(params(), params(), params())
def test_laying_over_is_associative(
    first: SamplingParams, second: SamplingParams, third: SamplingParams
) -> None:
    """Three layers give the same parameters whichever two meet first."""
    assert first.over(second).over(third) == first.over(second.over(third))


@given(params())
def test_unset_parameters_change_nothing(some: SamplingParams) -> None:
    """Parameters with nothing set are neutral on both sides."""
    nothing = SamplingParams()

    assert nothing.over(some) == some == some.over(nothing)


@given(params())
def test_defaults_stay_set(some: SamplingParams) -> None:
    """A request's parameters have every field that has a default."""
    assert DEFAULTS.given().keys() <= some.over(DEFAULTS).given().keys()


def test_defaults_are_the_references() -> None:
    """Without a word from anyone, SGLang's defaults hold."""
    assert (DEFAULTS.max_new_tokens, DEFAULTS.temperature, DEFAULTS.n) == (128, 1.0, 1)
    assert (DEFAULTS.top_p, DEFAULTS.top_k, DEFAULTS.min_p) == (1.0, -1, 0.0)


def test_zero_is_a_value() -> None:
    """Zeros win over the run's parameters; only ``None`` does not count."""
    zeros = SamplingParams.of(max_new_tokens=0, temperature=0, stop=None)
    whole = zeros.over(SamplingParams.of(max_new_tokens=9, temperature=1, stop="x"))

    assert (whole.max_new_tokens, whole.temperature, whole.stop) == (0, 0, ("x",))


@pytest.mark.parametrize("stop", ["\n", ["\n"], ("\n",), iter(["\n"]), {"\n": 1}])
def test_stop_is_a_string_or_any_iterable(stop: object) -> None:
    """However an author writes stops, they become a tuple of their own."""
    assert SamplingParams.of(stop=stop).stop == ("\n",)


def test_an_authors_list_is_not_kept() -> None:
    """A list that changes later does not change the parameters."""
    ends, ids = ["a"], [1]
    made = SamplingParams.of(stop=ends, stop_token_ids=ids)
    ends.append("b")
    ids.append(2)

    assert (made.stop, made.stop_token_ids) == (("a",), (1,))


def test_a_lone_token_id_is_a_tuple() -> None:
    """One token id may stand without a list."""
    assert SamplingParams.of(stop_token_ids=7).stop_token_ids == (7,)


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_new_tokens": -1},
        {"min_new_tokens": -1},
        {"n": 0},
        {"temperature": -0.1},
        {"temperature": float("nan")},
        {"top_p": 1.1},
        {"top_p": 0},
        {"top_k": -2},
        {"top_k": 0},
        {"min_p": 2},
        {"frequency_penalty": 2.5},
        {"presence_penalty": -2.5},
        {"repetition_penalty": -1},
        {"repetition_penalty": 0.0},
        {"temperature": float("inf")},
        {"top_logprobs_num": -1},
    ],
)
def test_a_value_out_of_range_is_named(wrong: dict[str, Any]) -> None:
    """What a server would refuse is refused where it is written, with the value."""
    ((name, value),) = wrong.items()

    with pytest.raises(ValueError, match=name) as caught:
        SamplingParams.of(**wrong)

    assert repr(value) in str(caught.value)


def test_numbers_of_other_kinds_are_taken() -> None:
    """A float that is whole is an integer, as in JSON; others count as they convert."""
    made = SamplingParams.of(
        n=2.0, seed=4.0, stop_token_ids=[5.0], top_p=Fraction(1, 2)
    )

    assert repr(made.given()) == repr(
        {"n": 2, "stop_token_ids": (5,), "top_p": 0.5, "seed": 4}
    )


def test_biases_are_of_token_ids() -> None:
    """Ids may be written as JSON has them; a token may be ruled out."""
    given = {"5": 1, 6: -2.5, 7: float("-inf")}
    made = SamplingParams.of(logit_bias=given)
    given["8"] = 1

    assert made.logit_bias == {5: 1, 6: -2.5, 7: float("-inf")}


@pytest.mark.parametrize("bias", [{-1: 1.0}, {1: float("nan")}, {1: float("inf")}])
def test_a_bias_that_means_nothing_is_refused(bias: dict[int, float]) -> None:
    """It names the token."""
    with pytest.raises(ValueError, match=f"logit_bias of token {next(iter(bias))}"):
        SamplingParams.of(logit_bias=bias)


def test_no_more_has_to_be_written_than_may_be() -> None:
    """A least length over the greatest is refused with both, as SGLang does."""
    SamplingParams.of(min_new_tokens=4, max_new_tokens=4)

    with pytest.raises(ValueError, match=r"min_new_tokens .* max_new_tokens=4, not 5"):
        SamplingParams.of(min_new_tokens=5, max_new_tokens=4)


class Unknown(str):
    """A tracer's stand-in: text of a class of its own."""

    __slots__ = ()

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """Let nobody ask what it is."""
        raise AssertionError


@pytest.mark.parametrize("name", ["seed", "logit_bias", "logprob_start_len"])
def test_a_stand_in_is_not_asked_what_it_is(name: str) -> None:
    """What a tracer does not know yet stays as it is."""
    unknown = Unknown("?")

    assert getattr(SamplingParams.of(**{name: unknown}), name) is unknown


@pytest.mark.parametrize(
    "wrong",
    [
        {"stop": 5},
        {"stop": [5]},
        {"stop_token_ids": 1.5},
        {"stop_token_ids": [1.5]},
        {"stop_token_ids": ["x"]},
        {"max_tokens": 5},
        {"max_new_tokens": "5"},
        {"max_new_tokens": float("inf")},
        {"n": 2.5},
        {"top_k": 1.5},
        {"seed": "x"},
        {"seed": 1.5},
        {"temperature": "hot"},
        {"top_p": [1]},
        {"logit_bias": [1]},
        {"logit_bias": {1: "x"}},
        {"logit_bias": {"x": 1}},
        {"logit_bias": {1.5: 1}},
    ],
)
def test_a_wrong_kind_or_name_is_named(wrong: dict[str, Any]) -> None:
    """A value of the wrong kind, or a name that no parameter has, is named."""
    with pytest.raises(TypeError, match=next(iter(wrong))):
        SamplingParams.of(**wrong)
