"""Stress: made-up programs that fail at every place where a program can fail.

Each program is drawn from a seed. It is run whole once, and once for every generation,
choice and line of the author's that may raise, in each way of running. For more of
them set ``SGLRUN_STRESS=2000``, and ``-X faulthandler`` to see where one hangs.
"""

import os
import random
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
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
WAYS: tuple[dict[str, Any], ...] = ({}, {"inline": True}, {"stream": True})


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
        kind = self._random.choice([k for k in kinds if depth or k != "fork"])
        if kind in ("gen", "select", "author"):
            self.num_sites += 1
        site = self.num_sites
        name = self._random.choice("abc")
        if kind == "turn":
            role = self._random.choice(["system", "user", "assistant"])
            inner = (self._several(depth, PLAIN),)
            return Step(kind, name=role, inner=inner)
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
KINDS = (*PLAIN, "turn", "scope", "fork")


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
            case "write":
                self.assigned[step.name] = "written"
            case "turn" | "scope":
                self._block(step)
            case "fork":
                self._join(step, [Expected(inner) for inner in step.inner])
            case _:
                pass

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


def scripted(failing: int, cause: Exception) -> MockBackend:
    """Return a backend that answers with the number of the step, or fails there."""

    def site(asked: Request | SelectRequest) -> int:
        number = int(re.findall(r"<(\d+)>", asked.prompt.text)[-1])
        if number == failing:
            raise cause
        return number

    def scores(asked: SelectRequest) -> list[float]:
        site(asked)
        return [-0.1, -0.2]

    return MockBackend(lambda asked: f"[{site(asked)}]", scores=scores)


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


@pytest.mark.usefixtures("_hectic")
@pytest.mark.timeout(60 + NUM_PROGRAMS)
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_every_failure_reaches_every_reader(way: dict[str, Any]) -> None:
    """No program hangs, loses a thread or tells another cause, wherever it fails."""
    runs = 0
    for seed in range(NUM_PROGRAMS):
        drawn = Drawn(seed)
        expected = Expected(drawn.steps)
        for failing in range(drawn.num_sites + 1):
            cause = BackendUnavailableError(f"program {seed} fails at {failing}")

            author = Author(failing, cause)

            def body(s: sgl.ProgramState) -> None:
                author.perform(s, drawn.steps)  # noqa: B023 - runs at once

            backend = scripted(failing, cause)
            state = run_program(sgl.function(body), {}, backend=backend, **way)
            check(state, expected, cause if failing else None)
            runs += 1

    assert runs > 3 * NUM_PROGRAMS


def check(state: sgl.ProgramState, expected: Expected, cause: Exception | None) -> None:
    """Compare *state* with what was expected, or with the one cause of its failure."""
    with suppress(Exception):
        list(state.text_iter())
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
