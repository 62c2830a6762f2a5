"""Choices methods that authors write, as they do for SGLang."""

from typing import Any

import pytest

import sglrun as sgl
from sglrun.backends.mock import MockBackend
from sglrun.errors import ProgramError
from sglrun.lang.authors_choices import (
    ChoicesSamplingMethod,
    Decision,
    choices_method,
)
from sglrun.lang.choices import ChoiceScore, TokenLogprob, greedy_token_selection

OPTIONS = (
    ChoiceScore(
        choice="a", tokens=(TokenLogprob(-0.1, 7, "a"),), unconditional=(-0.5,)
    ),
    ChoiceScore(
        choice="b", tokens=(TokenLogprob(-0.3, 8, "b"),), unconditional=(-2.0,)
    ),
)


class Worst(ChoicesSamplingMethod):
    """Takes the option of the lowest mean."""

    def __init__(self) -> None:
        """Begin with nothing heard."""
        self.heard: dict[str, Any] = {}

    def __call__(self, **logprobs: Any) -> Decision:
        """Take it."""
        self.heard = logprobs
        means = logprobs["normalized_prompt_logprobs"]
        worst = logprobs["choices"][means.index(min(means))]
        return Decision(decision=worst, meta_info={"why": "worst"})


class Unconditional(Worst):
    """Asks for the log-probabilities without the prompt."""

    requires_unconditional_logprobs = True


def test_it_is_called_with_the_references_keywords() -> None:
    """It hears each option's own tokens, and those alone."""
    method = Worst()
    decision = choices_method(method)(OPTIONS)

    assert (decision.choice, decision.details) == ("b", {"why": "worst"})
    assert method.heard == {
        "choices": ["a", "b"],
        "normalized_prompt_logprobs": [-0.1, -0.3],
        "input_token_logprobs": [[(-0.1, 7, "a")], [(-0.3, 8, "b")]],
        "output_token_logprobs": [[], []],
        "unconditional_token_logprobs": None,
    }


def test_it_may_ask_for_unconditional_logprobs() -> None:
    """They are asked of the backend, and told token by token."""
    method = Unconditional()
    made = choices_method(method)
    made(OPTIONS)

    assert made.requires_unconditional_logprobs
    assert method.heard["unconditional_token_logprobs"] == [
        [(-0.5, 7, "a")],
        [(-2.0, 8, "b")],
    ]


def test_a_program_selects_by_it() -> None:
    """Its decision is the variable, and what it tells is in the meta info."""

    @sgl.function
    def program(s: sgl.ProgramState) -> None:
        s += "Q" + sgl.gen("c", choices=["a", "b"], choices_method=Worst())

    state = program.run(backend=MockBackend(scores=lambda _: [-0.1, -0.9]))

    assert (state["c"], state.text()) == ("b", "Qb")
    assert state.get_meta_info("c")["why"] == "worst"
    with pytest.raises(ProgramError, match="choices method Worst is the author's own"):
        program.compile()


@pytest.mark.parametrize("decided", ["c", None])
def test_it_must_take_an_option(decided: Any) -> None:
    """What is no option is refused by name."""

    class Wrong(Worst):
        def __call__(self, **logprobs: Any) -> Decision:
            del logprobs
            return Decision(decision=decided)

    with pytest.raises(ValueError, match=f"Wrong takes {decided!r}, which is no"):
        choices_method(Wrong())(OPTIONS)


@pytest.mark.parametrize("wrong", [5, max, lambda **_: None])
def test_what_is_no_method_is_refused_where_it_stands(wrong: object) -> None:
    """A method that could not be called fails before any request."""
    with pytest.raises(TypeError, match="a choices method is one of token_length"):
        sgl.select("c", ["a"], choices_method=wrong)


def test_it_cannot_draw() -> None:
    """A temperature has no scores to draw by, and is refused."""
    with pytest.raises(ValueError, match="no scores to draw by"):
        sgl.select("c", ["a"], 0.7, Worst())


def test_methods_and_names_stay_what_they_are() -> None:
    """The three methods are taken as they are, or by their names."""
    assert choices_method("greedy_token_selection") is greedy_token_selection
    assert choices_method(greedy_token_selection) is greedy_token_selection
