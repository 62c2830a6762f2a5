"""Diagrams: a graph as text for other tools, and steps in words."""

from typing import Any

import sglrun as sgl
from sglrun.display.diagram import as_dot, as_mermaid, value_words, words
from sglrun.interpreter.tracing.graph import Graph
from sglrun.interpreter.tracing.tracer import trace_program
from sglrun.interpreter.tracing.value import Value
from sglrun.lang.chat_template import DEFAULT_TEMPLATE


@sgl.function
def ask(s: Any, q: str) -> None:
    s += f'Say "{q}" <once>\n' + sgl.gen("a", max_tokens=4)
    if s["a"] == "x":
        s += s["a"]


GRAPH: Graph = trace_program(ask, template=DEFAULT_TEMPLATE).graph


def test_graphviz_reads_the_graph() -> None:
    """Labels are quoted, order is a line and a value that is used a dashed one."""
    lines = as_dot(GRAPH).splitlines()

    assert lines[2] == '  n0 [label="\'Say \\"{q}\\" <once>\\\\n\'"];'
    assert "  n0 -> n1;" in lines
    assert "  n1 -> n3 [style=dashed];" in lines


def test_mermaid_reads_the_graph() -> None:
    """Labels are escaped, and a decision is a rhombus."""
    lines = as_mermaid(GRAPH).splitlines()

    assert "#34;{q}#34; #60;once#62;" in lines[1]
    assert lines[2] == '  n1["gen a max_new_tokens=4"]'
    assert lines[3].startswith('  n2{"unknown: a comparison of variable')
    assert "  n1 -.-> n3" in lines


def test_mermaid_takes_no_text_for_its_own() -> None:
    """What Mermaid reads as a directive, a sign or Markdown is escaped."""

    def body(s: Any) -> None:
        s += "%%{init: {}}%% #9829; `**bold**`"

    graph = trace_program(sgl.function(body), template=DEFAULT_TEMPLATE).graph
    label = as_mermaid(graph).splitlines()[1]

    assert "#37;#37;{init: {}}#37;#37; #35;9829; #96;**bold**#96;" in label


def test_many_choices_are_counted() -> None:
    """A choice among many shows some of them."""
    choices = [f"c{number}" for number in range(77)]

    def body(s: Any) -> None:
        s += "x" + sgl.select("label", choices)

    graph = trace_program(sgl.function(body), template=DEFAULT_TEMPLATE).graph

    assert words(graph.nodes[1]).endswith("'c6', 'c7' and 69 more")


def test_values_read_as_the_author_wrote_them() -> None:
    """Steps are written as Python has them."""
    value = Value(source="argument", name="q")

    assert value_words(value.then("item", "k").then("part", 1, None, None)) == (
        "q['k'][1:]"
    )
    assert value_words(value.then("mul", 2).then("radd", 1)) == "(1 + (q * 2))"
    assert value_words(value.then("strip").then("text")) == "q.strip()"
    assert value_words(value.then("add", value)) == "(q + q)"


def test_long_text_is_cut_in_the_middle() -> None:
    """A step is one short line."""
    graph = trace_program(
        sgl.function(lambda s: s.__iadd__("a" * 500 + "\n" + "b" * 500)),
        template=DEFAULT_TEMPLATE,
    ).graph

    assert len(words(graph.nodes[0])) < 100
