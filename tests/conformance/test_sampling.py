"""Rows 25 to 37: sampling parameters on their way to the server."""

import json
import re
from typing import Any

import pytest

import sglrun as sgl
from sglrun.backends.base import Backend, BackendOptions
from sglrun.backends.sglang import create
from sglrun.lang import chat_template
from sglrun.lang.chat_template import ChatTemplate, register_chat_template
from sglrun.lang.constraints import REGEX_INT
from tests.stand_in import StandIn


def generated(backend: Backend, *args: Any, run: Any = None, **kwargs: Any) -> Any:
    """Return the value of one generation with these parameters."""

    @sgl.function
    def program(s: sgl.ProgramState) -> None:
        s += "p" + sgl.gen("a", *args, **kwargs)

    return program.run(backend=backend, **(run or {}))["a"]


def params(stand_in: StandIn) -> dict[str, Any]:
    """Return the sampling parameters of the only request."""
    (sent,) = stand_in.generations
    found: dict[str, Any] = sent["sampling_params"]
    return found


def test_row_025_zeros(backend: Backend, stand_in: StandIn) -> None:
    """Zeros are sent as zeros."""
    value = generated(backend, max_tokens=0, temperature=0)

    assert value == ""
    assert params(stand_in)["max_new_tokens"] == 0
    assert params(stand_in)["temperature"] == 0


def test_row_026_run_level(backend: Backend, stand_in: StandIn) -> None:
    """The run's value holds where the generation has none."""
    generated(backend, run={"max_new_tokens": 9})

    assert params(stand_in)["max_new_tokens"] == 9


def test_row_027_gen_beats_run(backend: Backend, stand_in: StandIn) -> None:
    """The generation's value wins."""
    generated(backend, max_tokens=5, run={"max_new_tokens": 9})

    assert params(stand_in)["max_new_tokens"] == 5


def test_row_028_logprob_options(backend: Backend, stand_in: StandIn) -> None:
    """What asks for log-probabilities stands beside the parameters, if it is set."""
    generated(backend, return_logprob=True, top_logprobs_num=2)
    generated(backend)
    first, second = stand_in.generations

    assert (first["return_logprob"], first["top_logprobs_num"]) == (True, 2)
    assert "logprob_start_len" not in first
    assert "return_logprob" not in second


def test_row_029_stop_list_and_template(stand_in: StandIn) -> None:
    """The template's stop string is sent once, and the author's list stays."""
    options = BackendOptions(url=stand_in.url, chat_template="llama-3-instruct")
    ends = ["\n"]
    with create(options) as backend:
        for _ in range(3):
            generated(backend, stop=ends)
    sent = [each["sampling_params"]["stop"] for each in stand_in.generations]

    assert ends == ["\n"]
    assert sent == [["\n", "<|eot_id|>"]] * 3


def test_row_030_tuple_stop_and_template(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tuple of stop strings meets a template with several."""
    monkeypatch.setattr(chat_template, "_by_name", {})
    register_chat_template(ChatTemplate(name="two-ends", roles={}, stop=("<a>", "<b>")))
    options = BackendOptions(url=stand_in.url, chat_template="two-ends")
    with create(options) as backend:
        generated(backend, stop=("\n",))

    assert params(stand_in)["stop"] == ["\n", "<a>", "<b>"]


def test_row_031_dtype_int(backend: Backend, stand_in: StandIn) -> None:
    """An integer has a pattern and two stops; its value is text, typed if asked."""
    text = generated(backend, dtype=int)
    number = generated(backend, dtype=int, typed=True)
    first, _ = stand_in.generations

    assert first["sampling_params"]["regex"] == REGEX_INT
    assert first["sampling_params"]["stop"] == [" ", "\n"]
    assert isinstance(text, str)
    assert number == int(text)


def test_row_032_dtype_int_and_stop(backend: Backend, stand_in: StandIn) -> None:
    """A stop string of the author's joins those of the type."""
    generated(backend, dtype=int, stop="\n")

    assert params(stand_in)["stop"] == ["\n", " "]


def test_row_033_dtype_and_schema() -> None:
    """Two constraints are refused before anything is sent."""
    with pytest.raises(ValueError, match="one of dtype and json_schema"):
        sgl.gen("a", dtype=int, json_schema="{}")


def test_row_034_dict_schema(backend: Backend, stand_in: StandIn) -> None:
    """A schema given as a dict is sent as JSON text."""
    generated(backend, json_schema={"type": "object"})
    sent = params(stand_in)["json_schema"]

    assert json.loads(sent) == {"type": "object"}


def test_row_035_bad_regex() -> None:
    """A pattern that cannot be read raises at construction."""
    with pytest.raises(re.error):
        sgl.gen("a", regex="(")


def test_row_036_unknown_dtype() -> None:
    """Another type raises at construction."""
    with pytest.raises(ValueError, match="unknown dtype 'dict'"):
        sgl.gen("a", dtype=dict)


def test_row_037_three_samples(backend: Backend, stand_in: StandIn) -> None:
    """Three samples are a list; the first of them goes on in the text."""

    @sgl.function
    def program(s: sgl.ProgramState) -> None:
        s += "p" + sgl.gen("a", n=3) + "e"

    state = program.run(backend=backend)

    assert state["a"] == [" OUT"] * 3
    assert state.text() == "p OUTe"
    assert len(state.get_meta_info("a")) == 3
    assert params(stand_in)["n"] == 3
