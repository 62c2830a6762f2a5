"""Stress: made-up programs that fail at every place where a program can fail.

Each program is drawn from a seed. It is run whole once, and once for every generation,
choice and line of the author's that may raise, in each way of running. For more of
them set ``SGLRUN_STRESS=2000``, and ``-X faulthandler`` to see where one hangs.
"""

import asyncio
import os
import random
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest

import sglrun as sgl
from sglrun.backends.base import Request, SelectRequest
from sglrun.backends.mock import MockBackend
from sglrun.errors import BackendUnavailableError, ForkError
from sglrun.interpreter.run import run_program

NUM_PROGRAMS = int(os.environ.get("SGLRUN_STRESS", "200"))
WAIT_S = 10.0
WAYS: tuple[dict[str, Any], ...] = (
    {},
    {"inline": True},
    {"stream": True},
    {"speculates": True},
    {"stream": True, "speculates": True},
)


@dataclass(frozen=True)
class Step:
    """One step of a made-up program.

    Attributes:
        kind: what it does.
        site: its number, where it may fail.
        name: the variable or the role.
        inner: the steps inside it, one list for each branch.
        mode: how branches are joined.
    """

    kind: str
    site: int = 0
    name: str = ""
    inner: tuple[tuple["Step", ...], ...] = ()
    mode: str = "gather_variable"


class Drawn:
    """Draws a program: at most a few steps, and forks at most two deep."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - a test's draw
        self.num_sites = 0
        self.steps = self._several(depth=2, kinds=KINDS)

    def _several(self, depth: int, kinds: Sequence[str]) -> tuple[Step, ...]:
        count = self._random.randint(1, 4)
        return tuple(self._one(depth, kinds) for _ in range(count))

    def _one(self, depth: int, kinds: Sequence[str]) -> Step:
        kind = self._random.choice(
            [k for k in kinds if depth or k not in ("fork", "copy")]
        )
        if kind in ("gen", "select", "author", "several", "nested"):
            self.num_sites += 1
        site = self.num_sites
        name = self._random.choice("abc")
        if kind == "turn":
            role = self._random.choice(["system", "user", "assistant"])
            inner = (self._several(depth, PLAIN),)
            return Step(kind, name=role, inner=inner)
        if kind == "copy":
            return Step(kind, inner=(self._several(depth - 1, KINDS),))
        if kind == "scope":
            return Step(kind, name=f"v{site}", inner=(self._several(depth, PLAIN),))
        if kind == "fork":
            branches = tuple(
                self._several(depth - 1, KINDS)
                for _ in range(self._random.randint(1, 3))
            )
            mode = self._random.choice(["gather_variable", "concate_and_append"])
            return Step(kind, inner=branches, mode=mode)
        return Step(kind, site=site, name=name)


PLAIN = ("text", "gen", "gen", "select", "author", "write", "read")
KINDS = (*PLAIN, "several", "nested", "turn", "scope", "fork", "copy")


@sgl.function
def inner_program(s: sgl.ProgramState, site: int) -> None:
    s += f"<{site}>" + sgl.gen("x")


@dataclass(frozen=True)
class Author:
    """Performs steps as an author would write them.

    Attributes:
        failing: the number of the step that raises.
        cause: what it raises.
    """

    failing: int
    cause: Exception

    def perform(self, s: Any, steps: tuple[Step, ...]) -> None:
        """Do *steps* in order."""
        for step in steps:
            if step.inner:
                self._perform_inner(s, step)
            elif step.kind == "author" and step.site == self.failing:
                raise self.cause
            else:
                self._perform_one(s, step)

    def _perform_one(self, s: Any, step: Step) -> None:
        match step.kind:
            case "text":
                s += "text"
            case "gen":
                s += f"<{step.site}>" + sgl.gen(step.name)
            case "select":
                s += f"<{step.site}>" + sgl.select(step.name, ["yes", "no"])
            case "several":
                s += f"<{step.site}>" + sgl.gen(step.name, n=2)
            case "nested":
                s += inner_program.run(site=step.site)["x"]
            case "write":
                s[step.name] = "written"
            case "read":
                _ = step.name in s and s[step.name]
            case _:
                pass

    def _perform_inner(self, s: Any, step: Step) -> None:
        if step.kind == "fork":
            group = s.fork(len(step.inner))
            for branch, inner in zip(group, step.inner, strict=True):
                self.perform(branch, inner)
            group.join(step.mode)
            return
        if step.kind == "copy":
            with s.copy() as copy:
                self.perform(copy, step.inner[0])
            return
        is_scope = step.kind == "scope"
        with s.var_scope(step.name) if is_scope else getattr(s, step.name)():
            self.perform(s, step.inner[0])


class Expected:
    """What a program says and assigns if nothing fails."""

    def __init__(self, steps: tuple[Step, ...]) -> None:
        self.text = ""
        self.assigned: dict[str, Any] = {}
        for step in steps:
            self._do(step)

    def _do(self, step: Step) -> None:
        match step.kind:
            case "text":
                self.text += "text"
            case "gen" | "select":
                value = f"[{step.site}]" if step.kind == "gen" else "yes"
                self.text += f"<{step.site}>{value}"
                self.assigned[step.name] = value
            case "several" | "nested":
                self._several(step)
            case "copy":
                self.assigned |= Expected(step.inner[0]).assigned
            case "write":
                self.assigned[step.name] = "written"
            case "turn" | "scope":
                self._block(step)
            case "fork":
                self._join(step, [Expected(inner) for inner in step.inner])
            case _:
                pass

    def _several(self, step: Step) -> None:
        value = f"[{step.site}]"
        if step.kind == "several":
            self.text += f"<{step.site}>"
            self.assigned[step.name] = [value, value]
        self.text += value

    def _block(self, step: Step) -> None:
        inside = Expected(step.inner[0])
        self.assigned |= inside.assigned
        if step.kind == "scope":
            self.text += inside.text
            self.assigned[step.name] = inside.text
        else:
            self.text += f"{step.name.upper()}:{inside.text}\n"

    def _join(self, step: Step, branches: list["Expected"]) -> None:
        if step.mode == "concate_and_append":
            self.text += "".join(branch.text for branch in branches)
            return
        names = dict.fromkeys(name for each in branches for name in each.assigned)
        self.assigned |= {
            name: [each.assigned.get(name) for each in branches] for name in names
        }


def scripted(
    failing: int, cause: Exception, *, keeps_prompts: bool = True
) -> MockBackend:
    """Return a backend that answers with the number of the step, or fails there."""

    def site(asked: Request | SelectRequest) -> int:
        number = int(re.findall(r"<(\d+)>", "<0>" + asked.prompt.text)[-1])
        if failing and number == failing:
            raise cause
        return number

    def scores(asked: SelectRequest) -> list[float]:
        site(asked)
        return [-0.1, -0.2]

    return MockBackend(
        lambda asked: f"[{site(asked)}]",
        scores=scores,
        capabilities=replace(MockBackend().capabilities, prefix_cache=keeps_prompts),
    )


def first_cause(error: BaseException | None) -> BaseException | None:
    while isinstance(error, ForkError):
        error = error.__cause__
    return error


def told(state: sgl.ProgramState, names: set[str]) -> Iterator[BaseException]:
    """Give every exception that a reader of a failed program meets."""
    calls: list[Callable[[], Any]] = [
        *(partial(state.get_var, name) for name in names),
        state.text,
        state.sync,
        state.fork,
        lambda: state.__iadd__("more"),
        lambda: state.set_var("more", 1),
        lambda: list(state.text_iter()),
        lambda: list(state.text_iter("never")),
    ]
    for call in calls:
        try:
            call()
        except Exception as exc:  # noqa: BLE001 - it is what the test looks at
            yield exc


async def read_beside(state: sgl.ProgramState, names: set[str]) -> None:
    """Read the text and every variable at the same time, as they come."""

    async def read(name: str | None) -> None:
        with suppress(Exception):
            async for _ in state.text_async_iter(name, return_meta_data=True):
                pass

    await asyncio.gather(read(None), *map(read, names))


def ours() -> list[threading.Thread]:
    """Return the threads that programs are running in."""
    names = ("sglrun-program", "sglrun-body", "sglrun-row")
    return [each for each in threading.enumerate() if each.name.startswith(names)]


@pytest.fixture
def _hectic() -> Iterator[None]:
    """Have threads take turns as often as they can."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


@pytest.mark.filterwarnings("ignore:speculation missed")
@pytest.mark.usefixtures("_hectic")
@pytest.mark.timeout(60 + NUM_PROGRAMS)
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_every_failure_reaches_every_reader(way: dict[str, Any]) -> None:
    """No program hangs, loses a thread or tells another cause, wherever it fails."""
    runs, way = 0, dict(way)
    speculates = way.pop("speculates", False)
    for seed in range(NUM_PROGRAMS):
        drawn = Drawn(seed)
        expected = Expected(drawn.steps)
        for failing in range(drawn.num_sites + 1):
            cause = BackendUnavailableError(f"program {seed} fails at {failing}")

            author = Author(failing, cause)

            def body(s: sgl.ProgramState) -> None:
                author.perform(s, drawn.steps)  # noqa: B023 - runs at once

            backend = scripted(failing, cause, keeps_prompts=not speculates)
            program = sgl.function(body, 64 if speculates else None)
            state = run_program(program, {}, backend=backend, **way)
            check(state, expected, cause if failing else None)
            runs += 1

    assert runs > 3 * NUM_PROGRAMS


def check(state: sgl.ProgramState, expected: Expected, cause: Exception | None) -> None:
    """Compare *state* with what was expected, or with the one cause of its failure."""
    with suppress(Exception):
        list(state.text_iter())
    asyncio.run(read_beside(state, set(expected.assigned)))
    state.stream_executor.finish()
    error = state.error()

    assert first_cause(error) is cause
    if cause is None:
        assert state.text() == "".join(state.text_iter()) == expected.text
        assert state.variables() == expected.assigned
    else:
        found = list(told(state, set(expected.assigned)))
        assert len(found) >= 7
        assert [each for each in found if each is not error] == []
    for thread in ours():
        thread.join(WAIT_S)
    assert ours() == []
