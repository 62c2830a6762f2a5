"""A plan: what a program does, step by step, with nothing left to decide.

Rule: data. A plan comes from a graph without branches; it can be printed, written as
JSON, and read by whoever wants to know what a program will ask of a model.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from sglrun.interpreter.tracing.graph import Graph, Node
from sglrun.interpreter.tracing.outcome import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The steps of a program whose control flow depends on nothing unknown.

    Attributes:
        program: its name.
        steps: what is done, in an order in which it can be done.
        returned: what the program returns.
        samples: groups of generations with the same prompt and parameters, in sibling
            branches, that one request of several samples can answer.
    """

    program: str
    steps: tuple[Node, ...]
    returned: Outcome
    samples: tuple[tuple[int, ...], ...] = ()

    @property
    def requests(self) -> tuple[Node, ...]:
        """The steps that ask the model."""
        return Graph(nodes=self.steps).of_kind("generate", "select")

    def waves(self) -> tuple[tuple[int, ...], ...]:
        """Return the requests by when they can be sent at the earliest.

        Those of a wave need answers of earlier waves only, and go out together.
        """
        when: dict[int, int] = {}
        waves: dict[int, list[int]] = {}
        for step in self.steps:
            needed = [value.node for value in step.reads]
            needed += (each for each in step.follows if self._waits(step, each))
            earliest = max((when[each] for each in needed if each >= 0), default=0)
            asks = step.kind in ("generate", "select")
            when[step.id] = earliest + asks
            if asks:
                waves.setdefault(earliest, []).append(step.id)
        return tuple(tuple(waves[wave]) for wave in sorted(waves))

    def _waits(self, step: Node, before: int) -> bool:
        """Return whether *step* needs the one *before* it to be done."""
        if step.kind == "program":
            return False
        return step.kind != "return" or self._streams[before] == step.stream

    @property
    def _streams(self) -> dict[int, int]:
        return {step.id: step.stream for step in self.steps}

    def as_json(self) -> dict[str, object]:
        """Return the plan as JSON values."""
        return {
            "program": self.program,
            **Graph(nodes=self.steps).as_json(),
            "waves": [list(wave) for wave in self.waves()],
            "samples": [list(group) for group in self.samples],
        }


def folded(steps: tuple[Node, ...]) -> tuple[Node, ...]:
    """Return *steps* with texts that follow each other in one prompt made one.

    A step that others follow or refer to stays, and is the one that is kept.
    """
    kept: list[Node] = []
    moved: dict[int, int] = {}
    last: dict[int, int] = {}  # stream to the place of its last step in kept
    for step in steps:
        at = last.get(step.stream)
        if at is not None and _is_text(kept[at], step):
            before = kept[at]
            joined = replace(before, fragments=(*before.fragments, *step.fragments))
            kept[at] = replace(joined, fragments=_merged(joined))
            moved[step.id] = before.id
            continue
        follows = tuple(dict.fromkeys(moved.get(each, each) for each in step.follows))
        last[step.stream] = len(kept)
        kept.append(replace(step, follows=follows))
    return tuple(kept)


def _is_text(before: Node, step: Node) -> bool:
    # A text that waits for a value must not hold back what is constant before it.
    plain = not (step.reads or before.reads or step.parameters or before.parameters)
    return before.kind == step.kind == "text" and plain


def _merged(step: Node) -> tuple[str, ...]:
    return ("".join(part for part in step.fragments if isinstance(part, str)),)


def sibling_samples(steps: tuple[Node, ...]) -> Iterator[tuple[int, ...]]:
    """Iterate over groups of generations that one request can answer.

    They are the first of their branches, after the same text, with the same parameters.
    """
    by_stream: dict[int, list[Node]] = {}
    for step in steps:
        by_stream.setdefault(step.stream, []).append(step)
    for fork in (step for step in steps if step.kind == "fork"):
        groups: dict[str, list[int]] = {}
        for stream in fork.streams:
            begun = _up_to_generation(by_stream.get(stream, []))
            if begun:
                same = repr([_meaning(step) for step in begun])
                groups.setdefault(same, []).append(begun[-1].id)
        yield from (tuple(group) for group in groups.values() if len(group) > 1)


def _up_to_generation(steps: list[Node]) -> list[Node]:
    for number, step in enumerate(steps):
        if step.kind == "generate":
            alone = step.parameters.get("n", 1) == 1
            return steps[: number + 1] if alone else []
        if step.kind not in ("text", "role", "role_end"):
            return []
    return []


def _meaning(step: Node) -> tuple[object, ...]:
    name = None if step.kind == "generate" else step.name
    return (step.kind, name, step.fragments, _sorted(step.parameters))


def _sorted(parameters: Mapping[str, object]) -> list[tuple[str, str]]:
    return sorted((name, repr(value)) for name, value in parameters.items())
