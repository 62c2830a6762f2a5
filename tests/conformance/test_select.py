"""Rows 38 to 46: choices."""

from typing import Any

import pytest

import sglrun as sgl
from sglrun.backends.base import Backend
from tests.stand_in import StandIn

OPTIONS = [" yes", " no way"]
LOGPROBS = {" yes": -0.5, " no": -0.2, " way": -1.5, " right": -3.0, "?": -3.0}


def chosen(backend: Backend, expr: Any, prompt: str = "Is it right?") -> Any:
    """Return the state of a program that chooses once."""

    @sgl.function
    def program(s: sgl.ProgramState) -> None:
        s += prompt + expr if prompt else expr

    state = program.run(backend=backend)
    state.sync()
    return state


@pytest.mark.parametrize("form", ["padded", "old"])
def test_row_038_choices(backend: Backend, stand_in: StandIn, form: Any) -> None:
    """The mean of an option's own tokens decides, in both formats of the server."""
    stand_in.model.logprobs = LOGPROBS
    stand_in.model.logprob_format = form
    state = chosen(backend, sgl.gen("c", choices=OPTIONS))
    meta = state.get_meta_info("c")

    assert state["c"] == " yes"
    assert meta["normalized_prompt_logprobs"] == pytest.approx([-0.5, -0.85])
    assert sum(meta["probabilities"]) == pytest.approx(1.0)


def test_row_039_greedy(backend: Backend, stand_in: StandIn) -> None:
    """The greedy method takes the option whose first token is likelier."""
    stand_in.model.logprobs = LOGPROBS
    expr = sgl.gen("c", choices=OPTIONS, choices_method=sgl.greedy_token_selection)

    assert chosen(backend, expr)["c"] == " no way"


def test_row_040_unconditional(backend: Backend, stand_in: StandIn) -> None:
    """The third request scores the options' tokens alone, from the beginning."""
    stand_in.model.logprobs = LOGPROBS
    method = sgl.unconditional_likelihood_normalized
    state = chosen(backend, sgl.gen("c", choices=OPTIONS, choices_method=method))
    alone = [sent for sent in stand_in.generations if "input_ids" in sent]

    assert state["c"] in OPTIONS
    assert [sent["logprob_start_len"] for sent in alone] == [0]
    assert "unconditional_token_logprobs" in state.get_meta_info("c")


def test_row_041_temperature(backend: Backend, stand_in: StandIn) -> None:
    """Above temperature 0 the choice is drawn by the scores."""
    stand_in.model.logprobs = {" yes": -0.1, " no": -0.1, " way": -0.1}
    drawn = {
        chosen(backend, sgl.select("c", OPTIONS, temperature=0.7))["c"]
        for _ in range(40)
    }

    assert drawn == set(OPTIONS)


def test_row_042_empty_choices() -> None:
    """No choices are an error where they stand."""
    with pytest.raises(ValueError, match="at least one choice"):
        sgl.gen("c", choices=[])
    with pytest.raises(ValueError, match="at least one choice"):
        sgl.select("c", [])


def test_row_043_empty_prompt(backend: Backend, stand_in: StandIn) -> None:
    """A choice may stand at the very beginning."""
    stand_in.model.logprobs = {"b": -0.1}

    assert chosen(backend, sgl.select("c", ["a", "b"]), prompt="")["c"] in ("a", "b")


def test_row_044_all_zero(backend: Backend, stand_in: StandIn) -> None:
    """Log-probabilities of 0 are scores, and the first of equals is taken."""
    stand_in.model.logprob = lambda *_: 0.0
    state = chosen(backend, sgl.select("c", OPTIONS))

    assert state["c"] == " yes"
    assert state.get_meta_info("c")["normalized_prompt_logprobs"] == [0.0, 0.0]


def test_row_045_unnamed_select(backend: Backend, stand_in: StandIn) -> None:
    """Without a name the option is appended and nothing is stored."""
    stand_in.model.logprobs = LOGPROBS
    state = chosen(backend, sgl.select(choices=OPTIONS))

    assert state.text() == "Is it right? yes"
    assert state.variables() == {}


def test_row_046_ignored_options() -> None:
    """What a choice cannot use is named in a warning."""
    with pytest.warns(UserWarning, match="does not use max_new_tokens, regex"):
        sgl.gen("a", choices=["x"], max_tokens=5, regex="(")
