"""The replay: a plan's steps, done for one row.

Each prompt of the plan goes on as far as what it needs is there, so that requests which
need nothing of each other are sent together.
"""

from collections import deque
from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import replace

from sglrun.errors import ProgramError
from sglrun.interpreter.compiling.plan import Plan
from sglrun.interpreter.compiling.shared_samples import SharedSamples
from sglrun.interpreter.compiling.steps import expression
from sglrun.interpreter.executor import Settings, StreamExecutor
from sglrun.interpreter.failure import Failure
from sglrun.interpreter.state import ProgramState, ProgramStateGroup
from sglrun.interpreter.tracing.graph import Node
from sglrun.interpreter.tracing.outcome import filled
from sglrun.interpreter.tracing.value import Value
from sglrun.lang import ir
from sglrun.lang.prompt import Prompt

_ROOT = 0


class Replay:
    """A plan that is being run; run it once, in one thread.

    Attributes:
        state: the program's state; what fails is in its ``failure``.
    """

    def __init__(
        self, plan: Plan, arguments: Mapping[str, object], settings: Settings
    ) -> None:
        """Prepare; nothing runs yet."""
        self._plan = plan
        self._arguments = arguments
        self._shared = SharedSamples(settings.backend)
        self._settings = replace(settings, backend=self._shared)
        self._samples = {step: group for group in plan.samples for step in group}
        self._expected: set[tuple[int, ...]] = set()
        self._futures: dict[tuple[int, str | None], Future[object]] = {}
        self._asked: dict[int, list[Future[object]]] = {}
        self._groups: dict[tuple[int, ...], ProgramStateGroup] = {}
        self._left: dict[int, deque[Node]] = {_ROOT: deque()}
        for step in plan.steps:
            self._left.setdefault(step.stream, deque()).append(step)
        self._states = {_ROOT: self._new_state()}

    @property
    def state(self) -> ProgramState:
        """The program's state; what fails is in its ``failure``."""
        return self._states[_ROOT]

    def run(self) -> None:
        """Do all steps; waits. Never raises for what a step does."""
        try:
            while self._advance():
                self._wait()
            self._check(self._plan.checks)
            returned = self._plan.returned
            self.state.ret_value = filled(returned, self._known, self.state)
        except Exception as exc:  # noqa: BLE001 - a row's failure is a result
            failure = Failure(cause=exc, in_body=True)
            self.state.stream_executor.wait()
            self.state.stream_executor.fail(failure)
        for state in self._states.values():
            state.stream_executor.finish()

    def _new_state(self) -> ProgramState:
        prompt = Prompt(template=self._settings.backend.chat_template)
        return ProgramState(StreamExecutor(self._settings, prompt))

    def _advance(self) -> bool:
        """Do every step that can be done; return whether steps are left."""
        moved = True
        while moved:
            moved = False
            for steps in self._left.values():
                while steps and self._is_ready(steps[0]):
                    self._do(steps.popleft())
                    moved = True
        return any(self._left.values())

    def _wait(self) -> None:
        pending = [future for future in self._futures.values() if not future.done()]
        if not pending:
            raise ProgramError("the plan cannot go on: a step waits for none before it")
        wait(pending, return_when=FIRST_COMPLETED)

    def _is_ready(self, step: Node) -> bool:
        if step.kind == "program":
            return True
        if step.stream not in self._states:
            return False
        if step.kind == "join" and any(self._left.get(each) for each in step.streams):
            return False
        waits_for = step.streams if step.kind == "join" else ()
        if step.kind == "fork":
            waits_for = (step.stream,)
        return self._is_idle(waits_for) and all(map(self._is_there, self._needs(step)))

    def _is_idle(self, streams: tuple[int, ...]) -> bool:
        """Return whether all that *streams* have asked for is there."""
        return all(
            future.done()
            for stream in streams
            for future in self._asked.get(stream, ())
        )

    def _needs(self, step: Node) -> tuple[Value, ...]:
        return step.made if "by" in step.parameters else (*step.reads, *step.made)

    def _check(self, values: tuple[Value, ...]) -> None:
        """Make *values*; an error is the author's line's."""
        for value in values:
            value.apply(self._origin)

    def _is_there(self, value: Value) -> bool:
        if value.source == "argument":
            return True
        future = self._futures.get((value.node, value.name))
        return future is not None and future.done()

    def _known(self, value: Value) -> object:
        made: object = value.apply(self._origin)
        return made

    def _origin(self, value: Value) -> object:
        if value.source == "argument":
            return self._arguments[str(value.name)]
        return self._futures[value.node, value.name].result()

    def _do(self, step: Node) -> None:
        self._check(step.checks)
        match step.kind:
            case "program":
                self._states[step.stream] = self._new_state()
            case "fork":
                group = self._states[step.stream].fork(len(step.streams))
                self._groups[step.streams] = group
                self._states |= dict(zip(step.streams, group, strict=True))
            case "join":
                self._groups[step.streams].join(str(step.name))
            case "assign" if "by" not in step.parameters:
                state = self._states[step.stream]
                state[step.name] = filled(step.value, self._known, state)
            case _:
                self._add(step)

    def _add(self, step: Node) -> None:
        if "by" in step.parameters:
            return  # the join did it
        piece = expression(step, self._known)
        if piece is None:
            return
        executor = self._states[step.stream].stream_executor
        group = self._samples.get(step.id)
        if group is not None and group not in self._expected:
            self._expected.add(group)
            self._shared.expect(executor.evaluator.prompt, len(group))
        executor.submit(piece, step.where)
        for name in ir.defines(piece):
            future = executor.future(name)
            self._futures[step.id, name] = future
            self._asked.setdefault(step.stream, []).append(future)
