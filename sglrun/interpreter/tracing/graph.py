"""The graph: what a program does, as far as it is known before it runs.

Rule: data and nothing else; the tracer builds it, the compiler and the display read it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, assert_never

from sglrun.interpreter.tracing.outcome import NOTHING, Outcome, values_in
from sglrun.interpreter.tracing.value import Fragment, Mark, Value
from sglrun.lang import ir
from sglrun.lang.prompt import ImageData, VideoData

Kind = Literal[
    "program",
    "return",
    "text",
    "role",
    "role_end",
    "generate",
    "select",
    "image",
    "scope",
    "scope_end",
    "assign",
    "fork",
    "join",
    "branch",
    "end",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One step of a program.

    Attributes:
        id: its number, in the order in which the trace came by.
        kind: what it does.
        stream: the prompt that it belongs to: a program's own, or that of a branch.
        follows: the steps right before it; a join follows the end of each branch.
        where: the author's line, as ``prog.py:12``.
        name: the variable, role or program, the way to join, what a branch asks, or
            why the trace ends here.
        fragments: the text, or the value assigned.
        parameters: of a generation, those that are set.
        choices: of a select.
        streams: of a fork, the prompts that begin here; of a join, those that end.
        value: of an assignment, what is assigned.
        prompt: of a request, the whole text that it comes after, markup included.
        image: of an image whose bytes are known.
        checks: what the author's code makes before it, and which a row may not have.
    """

    id: int
    kind: Kind
    stream: int
    follows: tuple[int, ...] = ()
    where: str | None = None
    name: str | None = None
    fragments: tuple[Fragment, ...] = ()
    parameters: Mapping[str, object] = field(default_factory=dict)
    choices: tuple[tuple[Fragment, ...], ...] = ()
    streams: tuple[int, ...] = ()
    value: Outcome = NOTHING
    prompt: tuple[Fragment, ...] = ()
    image: ImageData | None = None
    checks: tuple[Value, ...] = ()

    @property
    def reads(self) -> tuple[Value, ...]:
        """The unknown values in its text, choices and assignment, each once."""
        every = (*self.fragments, *(part for choice in self.choices for part in choice))
        marks = (part.value for part in every if isinstance(part, Mark))
        direct = (*marks, *values_in(self.value))
        return tuple(dict.fromkeys(each for value in direct for each in value.parts()))

    @property
    def made(self) -> tuple[Value, ...]:
        """The unknown values that its checks need, each once."""
        each = (part for value in self.checks for part in value.parts())
        return tuple(dict.fromkeys(each))

    @property
    def sources(self) -> tuple[int, ...]:
        """The generations whose values it uses, by id, each once."""
        return tuple(
            dict.fromkeys(
                value.node for value in self.reads if value.source == "variable"
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """The steps of a program, in the order in which the trace came by.

    Loops stand unrolled, as far as they were traced.
    """

    nodes: tuple[Node, ...] = ()

    def of_kind(self, *kinds: Kind) -> tuple[Node, ...]:
        """Return the steps of one of *kinds*, in order."""
        return tuple(node for node in self.nodes if node.kind in kinds)

    def edges(self) -> Iterator[tuple[int, int, Literal["then", "value"]]]:
        """Iterate over what leads to what: the order, and values that are used."""
        for node in self.nodes:
            yield from ((before, node.id, "then") for before in node.follows)
            yield from ((source, node.id, "value") for source in node.sources)


class GraphBuilder:
    """A graph that grows by one step at a time; one thread at a time."""

    def __init__(self) -> None:
        """Begin without steps."""
        self._nodes: list[Node] = []
        self._last: dict[int, int] = {}

    def __len__(self) -> int:
        """Return the number of steps."""
        return len(self._nodes)

    def add(
        self, kind: Kind, stream: int, *, after: tuple[int, ...] = (), **given: Any
    ) -> Node:
        """Add a step to *stream*, after its last one and the last ones of *after*."""
        lasts = (self._last.get(each) for each in (stream, *after))
        node = Node(
            id=len(self._nodes),
            kind=kind,
            stream=stream,
            follows=tuple(dict.fromkeys(last for last in lasts if last is not None)),
            **given,
        )
        self._nodes.append(node)
        self._last[stream] = node.id
        return node

    def begin(self, stream: int, around: int | None) -> None:
        """Let *stream* go on from the last step of *around*."""
        if around is not None and around in self._last:
            self._last[stream] = self._last[around]

    def build(self) -> Graph:
        """Return the graph so far."""
        return Graph(nodes=tuple(self._nodes))


def described(piece: ir.Piece) -> tuple[Kind, dict[str, Any]]:
    """Return the kind of the step that *piece* is, and its fields."""
    match piece:
        case ir.Text(value=value):
            return "text", {"fragments": (value,)}
        case ir.Gen(name=name):
            return "generate", {"name": name, "parameters": _gen_parameters(piece)}
        case ir.Select(name=name, choices=choices):
            return "select", {
                "name": name,
                "parameters": _select_parameters(piece),
                "choices": tuple((choice,) for choice in choices),
            }
        case ir.Image(image=image):
            shown = str(image.url) or f"{len(image.data):,} bytes"
            about: dict[str, Any] = {} if image.url else {"bytes": len(image.data)}
            if isinstance(image, VideoData):
                about |= {"video": True, "num_frames": image.num_frames}
            own = {} if image.url else {"image": image}
            return "image", {"fragments": (shown,), "parameters": about, **own}
        case _:
            return _BOUNDS[type(piece)], {"name": _bound_name(piece)}


_BOUNDS: Mapping[type, Kind] = {
    ir.RoleBegin: "role",
    ir.RoleEnd: "role_end",
    ir.VarScopeBegin: "scope",
    ir.VarScopeEnd: "scope_end",
}


def _bound_name(
    piece: ir.RoleBegin | ir.RoleEnd | ir.VarScopeBegin | ir.VarScopeEnd,
) -> str:
    match piece:
        case ir.RoleBegin(role=role) | ir.RoleEnd(role=role):
            return role
        case ir.VarScopeBegin(name=name) | ir.VarScopeEnd(name=name):
            return name
        case _:
            assert_never(piece)


def _gen_parameters(gen: ir.Gen) -> dict[str, object]:
    given = gen.sampling.given()
    if gen.dtype is not None:
        given["dtype"] = gen.dtype.name
    if gen.typed:
        given["typed"] = True
    if gen.reasoning is not None:
        given["reasoning"] = gen.reasoning.name
    return given


def _select_parameters(select: ir.Select) -> dict[str, object]:
    given: dict[str, object] = {"choices_method": select.method.name}
    if select.temperature:
        given["temperature"] = select.temperature
    return given


def known_text(fragments: Iterable[Fragment], arguments: Mapping[str, object]) -> str:
    """Return the text of *fragments* with *arguments*, as far as that is known.

    It ends before a variable, an argument that is not given, and whatever is made of
    an argument in a way that is not known or that fails.
    """
    said: list[str] = []
    for part in fragments:
        if isinstance(part, str):
            said.append(part)
            continue
        needed = part.value.parts()
        if any(
            each.source != "argument" or each.name not in arguments for each in needed
        ):
            break
        try:
            made = part.value.apply(lambda each: arguments[str(each.name)])
        except Exception:  # noqa: BLE001 - the author's own line would raise it too
            break
        said.append(str(made))
    return "".join(said)
