"""The graph: steps, what leads to what, and prompts as far as they are known."""

import json
from typing import Any

import sglrun as sgl
from sglrun.interpreter.tracing.graph import Graph, known_text
from sglrun.interpreter.tracing.node_json import graph_json
from sglrun.interpreter.tracing.tracer import trace_program
from sglrun.interpreter.tracing.value import Mark, Step, Value
from sglrun.lang.chat_template import DEFAULT_TEMPLATE
from sglrun.lang.ir import REGEX_INT


def graph_of(body: Any) -> Graph:
    return trace_program(sgl.function(body), template=DEFAULT_TEMPLATE).graph


def test_branches_begin_at_the_fork_and_end_at_the_join() -> None:
    """A branch follows its fork; the join follows the end of each branch."""

    def body(s: Any) -> None:
        s += "a"
        branches = s.fork(2)
        branches += sgl.gen("x")
        branches.join()

    graph = graph_of(body)
    (fork,) = graph.of_kind("fork")
    (join,) = graph.of_kind("join")
    gens = graph.of_kind("generate")

    assert [gen.follows for gen in gens] == [(fork.id,)] * 2
    assert [gen.stream for gen in gens] == list(fork.streams)
    assert join.follows == (fork.id, *(gen.id for gen in gens))


def test_values_lead_from_generations_to_their_uses() -> None:
    """A step that uses generated values has an edge from each of them."""

    def body(s: Any, q: str) -> None:
        s += q + sgl.gen("x") + sgl.gen("y")
        s += sgl.select("z", [s["x"], s["y"].strip() + s["x"]])

    graph = graph_of(body)
    x, y = (gen.id for gen in graph.of_kind("generate"))
    (choice,) = graph.of_kind("select")

    assert {(x, choice.id, "value"), (y, choice.id, "value")} <= set(graph.edges())
    assert choice.sources == (x, y)


def test_parameters_are_those_that_the_author_set() -> None:
    """A generation tells its own parameters, type and constraint, and no defaults."""

    def body(s: Any) -> None:
        s += sgl.gen("n", dtype=int, typed=True, max_tokens=4)
        s += sgl.separate_reasoning(sgl.gen("r"), "qwen3")

    first, second = graph_of(body).of_kind("generate")

    assert first.parameters == {
        "max_new_tokens": 4,
        "stop": (" ", "\n"),
        "regex": REGEX_INT,
        "dtype": "int",
        "typed": True,
    }
    assert second.parameters == {"reasoning": "qwen3"}


def test_a_loop_over_an_answer_ends() -> None:
    """A loop that an answer decides is unrolled a little, then taken to end."""

    def body(s: Any) -> None:
        s += sgl.gen("x")
        while "stop" in s["x"] or s["x"] != "done":
            s += sgl.gen("x")

    graph = graph_of(body)

    assert 1 < len(graph.of_kind("generate")) < 10
    assert not graph.of_kind("end")


def test_a_graph_is_json() -> None:
    """Every kind of step can be written as JSON."""

    def body(s: Any, q: Any) -> None:
        with s.system(), s.var_scope("v"):
            s += "a" + q["b"][1:].upper() + sgl.image("http://x/y.png")
        s["w"] = [q, "t" + sgl.function(lambda i: i.text())().ret_value, {"k": 1}]
        s += sgl.gen("x", stop=["\n"], n=2)
        if s["x"][0]:
            raise ValueError("no")

    told = json.loads(json.dumps(graph_json(graph_of(body))))

    assert [node["id"] for node in told["nodes"]] == list(range(len(told["nodes"])))
    assert told["nodes"][-1]["kind"] == "end"


def test_known_text_ends_where_something_is_not_known() -> None:
    """Text is filled in up to a value that is missing, fails, or comes later."""
    argument = Value(source="argument", name="q")
    later = Value(source="variable", name="x", node=1)
    fragments = ("a", Mark(argument.then("strip")), "b", Mark(later), "c")

    assert known_text(fragments, {"q": " Q "}) == "aQb"
    assert known_text(fragments, {"q": 5}) == "a"
    assert known_text(fragments, {}) == "a"
    assert known_text(("a", Mark(argument.inexact())), {"q": "Q"}) == "a"


def test_steps_say_what_is_done() -> None:
    """A value does again what was done to it."""
    value = Value(source="argument", name="q").then("item", "k").then("rsub", 10)

    assert value.apply(lambda _: {"k": 3}) == 7
    assert value.steps == (Step("item", ("k",)), Step("rsub", (10,)))
