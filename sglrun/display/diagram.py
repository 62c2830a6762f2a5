"""A diagram: a program's graph as text for Graphviz or Mermaid, and words for steps."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sglrun.interpreter.tracing.graph import Graph, Kind, Node
from sglrun.interpreter.tracing.outcome import Known, Listed, Made, Outcome, Said
from sglrun.interpreter.tracing.value import OPERATORS, Fragment, Step, Value

_LONGEST = 88
_MOST_CHOICES = 8
# Mermaid's own way; unescaped, ``%%{`` begins a directive and ``#35;`` is a sign.
_MERMAID = {char: f"#{ord(char)};" for char in '#%&"<>`'} | {"\n": " "}
_SIGNS = dict(zip(OPERATORS, ("+", "-", "*", "/", "//", "%", "**"), strict=True))


def as_dot(graph: Graph) -> str:
    """Return *graph* in the language of Graphviz; values that are used are dashed."""
    lines = ["digraph program {", '  node [shape=box, fontname="sans-serif"];']
    for node in graph.nodes:
        label = _escaped(words(node), {"\\": "\\\\", '"': '\\"', "\n": "\\n"})
        shape = ", shape=diamond" if node.kind == "branch" else ""
        lines.append(f'  n{node.id} [label="{label}"{shape}];')
    for start, end, kind in graph.edges():
        style = " [style=dashed]" if kind == "value" else ""
        lines.append(f"  n{start} -> n{end}{style};")
    return "\n".join([*lines, "}", ""])


def as_mermaid(graph: Graph) -> str:
    """Return *graph* as a flowchart of Mermaid; values that are used are dotted."""
    lines = ["flowchart TD"]
    for node in graph.nodes:
        label = _escaped(words(node), _MERMAID)
        begin, end = ("{", "}") if node.kind == "branch" else ("[", "]")
        lines.append(f'  n{node.id}{begin}"{label}"{end}')
    for start, stop, kind in graph.edges():
        arrow = "-.->" if kind == "value" else "-->"
        lines.append(f"  n{start} {arrow} n{stop}")
    return "\n".join([*lines, ""])


def words(node: Node) -> str:
    """Return what *node* does in one line."""
    say = _WORDS.get(node.kind)
    if say is not None:
        return say(node)
    return f"{node.kind.replace('_', ' ')} {node.name or ''}".strip()


def parameters(node: Node) -> Iterable[str]:
    """Return a generation's parameters as ``name=value``."""
    for name, value in node.parameters.items():
        listed: Any = list(value) if isinstance(value, tuple) else value
        yield f"{name}={_short(repr(listed))}"


def fragments_words(fragments: Iterable[Fragment]) -> str:
    """Return text in one short line; unknown values stand in braces."""
    whole = "".join(
        part if isinstance(part, str) else f"{{{value_words(part.value)}}}"
        for part in fragments
    )
    return _short(repr(whole))


def outcome_words(outcome: Outcome) -> str:
    """Return what is assigned, in one short line."""
    match outcome:
        case Known(value=constant):
            return _short(repr(constant))
        case Made(value=value):
            return value_words(value)
        case Said(fragments=fragments):
            return fragments_words(fragments)
        case Listed(items=items):
            return _short(f"[{', '.join(map(outcome_words, items))}]")
        case _:
            return "…"


def value_words(value: Value) -> str:
    """Return *value* nearly as the author wrote it."""
    shown = value.name or "an unknown value"
    if value.source == "text":
        shown = fragments_words(value.fragments)
    elif value.source == "call":
        shown += "()"
    for step in value.steps:
        shown = _with_step(shown, step)
    return shown


def _with_step(shown: str, step: Step) -> str:
    args = ", ".join(
        value_words(arg) if isinstance(arg, Value) else repr(arg) for arg in step.args
    )
    if step.name in ("text", "said", "str") or step == Step("format", ("",)):
        return shown
    if step.name == "format":
        return f"{shown}:{step.args[0] if step.args else '…'}"
    if step.name == "given to":
        return f"{step.args[0]}({shown})"
    if step.name == "item":
        return f"{shown}[{args}]"
    if step.name == "part":
        start, stop = ("" if bound is None else str(bound) for bound in step.args[:2])
        return f"{shown}[{start}:{stop}]"
    return _with_operator(shown, step, args)


def _with_operator(shown: str, step: Step, args: str) -> str:
    if step.name in _SIGNS:
        return f"({shown} {_SIGNS[step.name]} {args})"
    if step.name.removeprefix("r") in _SIGNS:
        return f"({args} {_SIGNS[step.name.removeprefix('r')]} {shown})"
    if step.name.startswith(".") or not step.name.isalpha():
        return f"{shown}{step.name}"
    return f"{shown}.{step.name}({args})"


def _short(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    half = (_LONGEST - 3) // 2
    return f"{text[:half]} … {text[-half:]}"


def _escaped(text: str, escapes: dict[str, str]) -> str:
    return "".join(escapes.get(char, char) for char in text)


def _select_words(node: Node) -> str:
    choices = ", ".join(map(fragments_words, node.choices[:_MOST_CHOICES]))
    more = len(node.choices) - _MOST_CHOICES
    rest = f" and {more} more" if more > 0 else ""
    return f"select {node.name or _UNNAMED} of {choices}{rest}"


def _branch_words(node: Node) -> str:
    taken = node.parameters.get("taken")
    assumed = "" if taken is None else f", taken as {'yes' if taken else 'no'}"
    return f"unknown: {node.name}{assumed}"


_UNNAMED = "(unnamed)"
_WORDS: Mapping[Kind, Callable[[Node], str]] = {
    "image": lambda node: f"image {fragments_words(node.fragments)}",
    "text": lambda node: fragments_words(node.fragments),
    "generate": lambda node: " ".join(
        ("gen", node.name or _UNNAMED, *parameters(node))
    ),
    "select": _select_words,
    "branch": _branch_words,
    "assign": lambda node: f"s[{node.name!r}] = {outcome_words(node.value)}",
    "fork": lambda node: f"fork into {len(node.streams)}",
    "join": lambda node: f"join {len(node.streams)} ({node.name})",
}
