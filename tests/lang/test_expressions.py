"""Expressions: what authors call."""

import inspect
import json
import re
from typing import Any

import pytest

from sglrun.lang import expressions, ir
from sglrun.lang.choices import (
    greedy_token_selection,
    token_length_normalized,
)
from sglrun.lang.constraints import REGEX_INT, dtype_of
from sglrun.lang.expressions import (
    assistant,
    gen,
    gen_int,
    gen_string,
    select,
    separate_reasoning,
    system,
    user,
)
from sglrun.lang.sampling import SamplingParams

# The reference's positional order, which programs rely on.
GEN_ORDER = (
    "name max_tokens min_tokens n stop stop_token_ids stop_regex temperature top_p "
    "top_k min_p frequency_penalty presence_penalty ignore_eos return_logprob "
    "logprob_start_len top_logprobs_num return_text_in_logprobs dtype choices "
    "choices_method regex json_schema"
)


def a_gen(*args: Any, **kwargs: Any) -> ir.Gen:
    """Return what ``gen`` makes, which is a generation."""
    made = gen(*args, **kwargs)

    assert isinstance(made, ir.Gen)
    return made


def test_the_positional_order_is_the_references() -> None:
    """Arguments by position mean what they mean in SGLang."""
    kinds = inspect.Parameter
    positional = [
        parameter.name
        for parameter in inspect.signature(gen).parameters.values()
        if parameter.kind is kinds.POSITIONAL_OR_KEYWORD
    ]

    assert " ".join(positional) == GEN_ORDER
    assert a_gen("a", 5, 1, 2).sampling == SamplingParams(
        max_new_tokens=5, min_new_tokens=1, n=2
    )


def test_gen_sets_only_what_is_given() -> None:
    """A bare generation leaves everything to the run."""
    assert a_gen("a") == ir.Gen(name="a", sampling=SamplingParams())
    assert a_gen() == ir.Gen(name=None)


def test_gen_takes_every_parameter() -> None:
    """What the reference lacks is given by name."""
    made = a_gen("a", seed=3, repetition_penalty=1.1, extra={"lora_path": "x"})

    assert made.sampling.given() == {
        "repetition_penalty": 1.1,
        "seed": 3,
        "extra": {"lora_path": "x"},
    }


def test_an_unknown_parameter_is_named() -> None:
    """A misspelt parameter is a type error that says what was meant."""
    with pytest.raises(TypeError, match=r"'temperatur' \(did you mean 'temperature'\?"):
        gen("a", temperatur=0.5)
    with pytest.raises(TypeError, match=r"there is no parameter 'wool'$"):
        gen("a", wool=5)


@pytest.mark.parametrize("dtype", [int, "int"])
def test_a_dtype_sets_pattern_and_stops(dtype: type | str) -> None:
    """A typed generation has the pattern of its type, and its stops once each."""
    made = a_gen("i", dtype=dtype, stop=["\n", "."])

    assert made.sampling == SamplingParams(regex=REGEX_INT, stop=("\n", ".", " "))
    assert made.dtype is dtype_of(int)


def test_a_dtype_without_stops_leaves_the_runs() -> None:
    """A string's pattern sets no stop, so that the run's hold."""
    assert a_gen("s", dtype=str).sampling.given().keys() == {"regex"}


@pytest.mark.parametrize(
    "both",
    [
        {"dtype": int, "json_schema": {}},
        {"dtype": int, "regex": "a"},
        {"regex": "a", "json_schema": "{}"},
        {"regex": "a", "ebnf": "b"},
    ],
)
def test_two_constraints_are_refused(both: dict[str, Any]) -> None:
    """A generation is held to one constraint; two are refused where they stand."""
    first, second = both

    with pytest.raises(ValueError, match=f"one of {first} and {second}, not both"):
        gen("a", **both)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"regex": "("}, re.error),
        ({"dtype": dict}, ValueError),
        ({"json_schema": "{"}, ValueError),
        ({"json_schema": 5}, TypeError),
        ({"n": 0}, ValueError),
        ({"stop": 5}, TypeError),
    ],
)
def test_wrong_values_are_refused_where_they_stand(
    wrong: dict[str, Any], error: type[Exception]
) -> None:
    """What no server could take raises at construction."""
    with pytest.raises(error):
        gen("a", **wrong)


def test_a_schema_is_sent_as_text() -> None:
    """A schema given as a dict becomes JSON text."""
    made = a_gen("a", json_schema={"type": "object"})

    assert json.loads(str(made.sampling.json_schema)) == {"type": "object"}


def test_choices_make_a_select() -> None:
    """``choices`` turn a generation into a choice."""
    made = gen("c", choices=["a", "b"], choices_method=greedy_token_selection)

    assert made == ir.Select(
        name="c", choices=("a", "b"), method=greedy_token_selection, temperature=0.0
    )


def test_a_select_names_what_it_ignores() -> None:
    """Options that a choice cannot use are named in a warning."""
    with pytest.warns(UserWarning, match="does not use max_new_tokens, regex"):
        gen("a", choices=["x"], max_tokens=5, regex="(")


@pytest.mark.parametrize("none", [[], (), None])
def test_no_choices_is_an_error(none: Any) -> None:
    """A choice among nothing is refused where it stands."""
    with pytest.raises(ValueError, match=r"select\('c'\) needs at least one choice"):
        select("c", none)


def test_choices_are_several_strings() -> None:
    """A lone string is not taken for its letters."""
    with pytest.raises(TypeError, match=r"choices.*\['yes'\]"):
        select("c", "yes")


def test_an_empty_list_of_choices_is_no_generation() -> None:
    """``gen(choices=[])`` is an error, never a free text."""
    with pytest.raises(ValueError, match="at least one choice"):
        gen("c", choices=[])


def test_methods_have_names() -> None:
    """A method may be named; an unknown one is answered with those that exist."""
    named = select("c", ["a"], choices_method="greedy_token_selection")

    assert named.method is greedy_token_selection
    assert select("c", ["a"], choices_method=None).method is token_length_normalized
    with pytest.raises(ValueError, match=r"'gready'.*greedy_token_selection"):
        select("c", ["a"], choices_method="gready")


def test_gen_int_and_gen_string_are_typed_generations() -> None:
    """They hold their dtype; positions follow the reference's shorter order."""
    assert gen_int("i", 5, stop="\n") == gen("i", 5, stop="\n", dtype=int)
    assert gen_int("i", 5, 2) == gen("i", 5, n=2, dtype=int)
    assert gen_string("s") == gen("s", dtype=str)


@pytest.mark.parametrize(
    ("turn", "role"), [(system, "system"), (user, "user"), (assistant, "assistant")]
)
def test_a_turn_stands_around_its_expression(turn: Any, role: str) -> None:
    """A role function puts its markers around text, expressions or nothing."""
    begin, end = ir.RoleBegin(role), ir.RoleEnd(role)

    assert turn("x").pieces == (begin, ir.Text("x"), end)
    assert turn("x" + gen("a")).pieces == (
        begin,
        ir.Text("x"),
        ir.Gen(name="a"),
        end,
    )
    assert turn().pieces == (begin, end)


def test_bare_markers() -> None:
    """Markers can be written one by one."""
    assert expressions.system_begin() == ir.RoleBegin("system")
    assert expressions.system_end() == ir.RoleEnd("system")
    assert expressions.user_begin() == ir.RoleBegin("user")
    assert expressions.user_end() == ir.RoleEnd("user")
    assert expressions.assistant_begin() == ir.RoleBegin("assistant")
    assert expressions.assistant_end() == ir.RoleEnd("assistant")


def test_reasoning_is_marked_on_every_generation() -> None:
    """All generations inside are marked; what stands between them is kept."""
    expr = separate_reasoning(assistant("A" + gen("a") + "B" + gen("b")), "qwen3")
    marked = [
        piece.reasoning.name
        for piece in expr.pieces
        if isinstance(piece, ir.Gen) and piece.reasoning
    ]

    assert marked == ["qwen3", "qwen3"]
    assert [p for p in expr.pieces if not isinstance(p, ir.Gen)] == [
        ir.RoleBegin("assistant"),
        ir.Text("A"),
        ir.Text("B"),
        ir.RoleEnd("assistant"),
    ]


@pytest.mark.parametrize("unnamed", [gen(), "a" + select(choices=["x"])])
def test_reasoning_needs_names(unnamed: ir.Expr) -> None:
    """A generation without a name has nowhere to keep its reasoning."""
    with pytest.raises(ValueError, match="with a name"):
        separate_reasoning(unnamed, "qwen3")
