"""A plan: what a program does, step by step, with nothing left to decide.

Rule: data. A plan comes from a graph without branches; it can be printed, written as
JSON, and read by whoever wants to know what a program will ask of a model.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from sglrun.errors import ProgramError
from sglrun.interpreter.tracing.graph import Graph, Node
from sglrun.interpreter.tracing.node_json import node_from_json, node_json
from sglrun.interpreter.tracing.outcome import (
    NOTHING,
    Outcome,
    filled,
    outcome_from_json,
    outcome_json,
)
from sglrun.interpreter.tracing.value import Value, value_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The steps of a program whose control flow depends on nothing unknown.

    Attributes:
        program: its name.
        parameters: the arguments that it takes.
        defaults: what those are that need not be given.
        steps: what is done, in an order in which it can be done.
        returned: what the program returns.
        checks: what is made after the last step, and which a row may not have.
        samples: groups of generations with the same prompt and parameters, in sibling
            branches, that one request of several samples can answer.
        template: the chat template whose markup stands in the steps, if any does.
    """

    program: str
    parameters: tuple[str, ...] = ()
    defaults: Mapping[str, Outcome] = field(default_factory=dict)
    steps: tuple[Node, ...] = ()
    returned: Outcome = NOTHING
    checks: tuple[Value, ...] = ()
    samples: tuple[tuple[int, ...], ...] = ()
    template: str | None = None

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
            needed = [value.node for value in (*step.reads, *step.made)]
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

    def arguments(self, given: Mapping[str, object]) -> dict[str, object]:
        """Return the arguments of a run that is *given* these.

        Raises:
            ProgramError: one is missing or unknown.
        """
        own = {name: filled(each, _never, None) for name, each in self.defaults.items()}
        arguments = {**own, **given}
        for name in self.parameters:
            if name not in arguments:
                raise ProgramError(f"missing argument {name!r} ({self._takes()})")
        for name in arguments:
            if name not in self.parameters:
                raise ProgramError(f"unknown argument {name!r} ({self._takes()})")
        return arguments

    def _takes(self) -> str:
        named = ", ".join(self.parameters) or "none"
        return f"the program {self.program!r} takes {named}"

    def as_json(self) -> dict[str, object]:
        """Return the plan as JSON values, with what it can do together."""
        return {
            "program": self.program,
            "parameters": list(self.parameters),
            "defaults": {
                name: outcome_json(given) for name, given in self.defaults.items()
            },
            "nodes": [node_json(node, whole=True) for node in self.steps],
            "edges": [
                {"from": start, "to": end, "kind": kind}
                for start, end, kind in Graph(nodes=self.steps).edges()
            ],
            "returned": outcome_json(self.returned),
            "checks": [value.as_json() for value in self.checks],
            "waves": [list(wave) for wave in self.waves()],
            "samples": [list(group) for group in self.samples],
            "template": self.template,
        }

    def to_json(self) -> str:
        """Return the plan as JSON."""
        return json.dumps(self.as_json(), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the plan that ``to_json`` wrote.

        Raises:
            ProgramError: *text* is no plan.
        """
        try:
            given: Any = json.loads(text)
            return cls(
                program=given["program"],
                parameters=tuple(given["parameters"]),
                defaults={
                    name: outcome_from_json(each)
                    for name, each in given["defaults"].items()
                },
                steps=tuple(map(node_from_json, given["nodes"])),
                returned=outcome_from_json(given["returned"]),
                checks=tuple(map(value_of, given["checks"])),
                samples=tuple(map(tuple, given["samples"])),
                template=given["template"],
            )
        except (ValueError, KeyError, TypeError, AttributeError, StopIteration) as exc:
            raise ProgramError(f"not a plan as sglrun writes it: {exc!r}") from exc


def _never(value: Value) -> object:
    raise ProgramError(f"a default is {value}, which is not data")


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
    told = step.reads or before.reads or step.parameters or before.parameters
    plain = not (told or step.checks)  # a check comes after what is said before it
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
