"""The compiler: from a program to a plan, where nothing is left to decide.

The author's code runs once, with stand-ins for its arguments and for all that a model
would say. What else it looks at, a clock or a file, is then part of the plan.
"""

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sglrun.backends.base import Backend
from sglrun.errors import ProgramError
from sglrun.interpreter.compiling.plan import Plan, folded, sibling_samples
from sglrun.interpreter.compiling.replay import Replay
from sglrun.interpreter.executor import Settings
from sglrun.interpreter.program import Program
from sglrun.interpreter.state import ProgramState
from sglrun.interpreter.tracing.graph import Node
from sglrun.interpreter.tracing.marks import Marks
from sglrun.interpreter.tracing.outcome import (
    Outcome,
    opaque_in,
    outcome_of,
    values_in,
)
from sglrun.interpreter.tracing.tracer import Trace, trace_program
from sglrun.interpreter.tracing.value import Fragment, Mark, Value, is_constant
from sglrun.lang.chat_template import DEFAULT_TEMPLATE, ChatTemplate
from sglrun.lang.choices import CHOICES_METHODS
from sglrun.lang.sampling import SamplingParams


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledProgram:
    """A program as a plan; it runs with the results of the program itself.

    Attributes:
        plan: its steps; one that was read back from JSON runs as well.
    """

    plan: Plan

    def run(
        self,
        arguments: Mapping[str, object],
        *,
        backend: Backend,
        sampling: SamplingParams | None = None,
    ) -> ProgramState:
        """Run the plan once; waits. What fails is in the state's ``failure``.

        Args:
            arguments: the program's arguments by name, besides the bound ones.
            backend: the model side.
            sampling: the run's parameters.

        Raises:
            ProgramError: arguments that do not fit, or a plan with the markup of
                another chat template.
        """
        own = backend.chat_template.name
        if self.plan.template not in (None, own):
            raise ProgramError(
                f"the plan says markup of the chat template {self.plan.template!r}, "
                f"but the backend's is {own!r}; compile the program for this backend"
            )
        settings = Settings(backend=backend, sampling=sampling or SamplingParams())
        replay = Replay(self.plan, self.plan.arguments(arguments), settings)
        replay.run()
        return replay.state


def compile_program(
    program: Program, *, template: ChatTemplate = DEFAULT_TEMPLATE
) -> CompiledProgram:
    """Return *program* as a plan. Its side effects happen once, now.

    Raises:
        ProgramError: it decides by an argument or a generated value what to do, does
            something with one that cannot be repeated, or fails; the message names the
            line.
    """
    place = f"{program.path.name}:{program.line}"
    if program.takes_any:
        raise _refusal(place, "the program takes arguments of any name")
    trace = trace_program(program, template=template)
    for where, what in _undecided(trace):
        raise _refusal(where or place, what)
    steps = folded(trace.graph.nodes)
    return CompiledProgram(
        plan=Plan(
            program=program.name,
            parameters=program.free,
            defaults=_defaults(program, place),
            steps=steps,
            returned=trace.returned,
            checks=trace.checks,
            samples=tuple(sibling_samples(steps)),
            template=template.name if trace.reads_markup else None,
        ),
    )


def _refusal(where: str | None, what: str) -> ProgramError:
    place = f"{where}: " if where else ""
    return ProgramError(f"{place}{what}; it cannot be compiled, run the program itself")


def _undecided(trace: Trace) -> Iterator[tuple[str | None, str]]:
    """Iterate over what keeps a trace from being a plan."""
    for where, what in trace.losses:
        yield where, f"{what} cannot be repeated"
    for node in trace.graph.nodes:
        if node.kind == "branch":
            yield node.where, f"{node.name} decides what the program does"
        elif node.kind == "end":
            yield node.where, f"the program ends with {node.name}"
        else:
            yield from ((node.where, what) for what in _unknown_in(node))
    for value in values_in(trace.returned):
        if not value.exact:
            yield None, _lost(value)
    for words in opaque_in(trace.returned):
        yield None, f"the program returns {words}, which is not data"


def _unknown_in(node: Node) -> Iterator[str]:
    method = node.parameters.get("choices_method")
    if method is not None and method not in CHOICES_METHODS:
        yield f"the choices method {method} is the author's own"
    if type(node.name) not in (str, type(None)):
        yield f"the name of a {node.kind} is not known"
    unknown = (key for key, given in node.parameters.items() if not _is_plain(given))
    yield from (f"the parameter {key!r} is not known" for key in unknown)
    if "by" not in node.parameters:
        yield from _lost_in(node)
    yield from (_lost(value) for value in node.checks if not value.exact)


def _lost_in(node: Node) -> Iterator[str]:
    fragments = (*node.fragments, *(part for each in node.choices for part in each))
    for value in (*_values(fragments), *values_in(node.value)):
        if not value.exact:
            yield _lost(value)
    for words in opaque_in(node.value):
        yield f"{node.name!r} is assigned {words}, which is not data"


def _values(fragments: tuple[Fragment, ...]) -> Iterator[Value]:
    return (part.value for part in fragments if isinstance(part, Mark))


def _lost(value: Value) -> str:
    return f"what is done to {value} cannot be repeated"


def _is_plain(given: object) -> bool:
    if isinstance(given, Mapping):
        return all(map(is_constant, (*given.keys(), *given.values())))
    return is_constant(given)


def _defaults(program: Program, place: str) -> dict[str, Outcome]:
    parameters = inspect.signature(program.func).parameters
    given = {name: parameters[name].default for name in program.free}
    found = {
        name: outcome_of(default, Marks())
        for name, default in given.items()
        if default is not inspect.Parameter.empty
    }
    for name, outcome in found.items():
        for words in opaque_in(outcome):
            raise _refusal(
                place, f"the default of {name!r} is {words}, which is not data"
            )
    return found
