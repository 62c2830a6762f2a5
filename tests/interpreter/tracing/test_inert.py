"""Inertness: which programs change nothing but their own state."""

import json
import random
import re
import subprocess
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

import sglrun as sgl
from sglrun.interpreter.tracing.inert import is_inert

TABLE = {"a": 1}
SEEN: list[str] = []
COUNTS: Counter[str] = Counter()
PATTERN = re.compile("x")
SHARED = sgl.gen("shared")
FILE = Path("told.txt")


class Color(Enum):
    """A word of a program's own."""

    RED = "red"


@dataclass(frozen=True)
class Example:
    """A line of a program's own."""

    question: str

    def line(self) -> str:
        """Return it."""
        return f"Q: {self.question}"


EXAMPLES = [Example("why?")]


def helper(text: str) -> str:
    return json.dumps({"text": text.strip()})


def telling(text: str) -> None:
    FILE.write_text(text)


@sgl.function
def inner(s: sgl.ProgramState, q: str) -> None:
    s += q + sgl.gen("a")


@sgl.function
def telling_inner(s: sgl.ProgramState, q: str) -> None:
    telling(q)


def plain(s: sgl.ProgramState, q: str) -> Any:
    own = []
    for example in EXAMPLES:
        s += example.line() + Color.RED.value + str(TABLE["a"])
    with s.user():
        s += helper(q) + SHARED
    forks = s.fork(2)
    forks += sgl.gen("a", max_tokens=len(TABLE), regex=PATTERN.pattern)
    forks.join()
    s["b"] = [one.upper() for one in s["a"]]
    own.append(inner(q)["a"])
    own[0] = "x"
    if not own:
        raise ValueError(q)
    return own


def printing(s: sgl.ProgramState, q: str) -> None:
    print(q)  # noqa: T201 - what it tests


def opening(s: sgl.ProgramState, q: str) -> None:
    s += open(q).read()  # noqa: PTH123, SIM115 - what it tests


def collecting(s: sgl.ProgramState, q: str) -> None:
    SEEN.append(q)


def replacing(s: sgl.ProgramState, q: str) -> None:
    TABLE["a"] = 2


def counting(s: sgl.ProgramState, q: str) -> None:
    COUNTS.update(q)


def declaring(s: sgl.ProgramState, q: str) -> None:
    global SHARED  # noqa: PLW0603 - what it tests
    SHARED = sgl.gen(q)


def calling(s: sgl.ProgramState, q: str) -> None:
    telling(q)


def nesting(s: sgl.ProgramState, q: str) -> None:
    telling_inner(q)


def drawing(s: sgl.ProgramState, q: str) -> None:
    s += random.choice(q)  # noqa: S311 - what it tests


def starting(s: sgl.ProgramState, q: str) -> None:
    subprocess.run([q], check=True)


def importing(s: sgl.ProgramState, q: str) -> None:
    import os  # noqa: PLC0415 - what it tests

    os.remove(q)  # noqa: PTH107


def setting(s: sgl.ProgramState, q: str) -> None:
    sgl.set_default_backend(q)  # type: ignore[arg-type]


def attaching(s: sgl.ProgramState, q: str) -> None:
    inner.func.told = q


def test_a_program_that_only_talks_is_inert() -> None:
    """Tables, helpers, enums, dataclasses, patterns and programs are only read."""
    assert is_inert(sgl.function(plain))


@pytest.mark.parametrize(
    "body",
    [
        printing,
        opening,
        collecting,
        replacing,
        counting,
        declaring,
        calling,
        nesting,
        drawing,
        starting,
        importing,
        setting,
        attaching,
    ],
)
def test_a_program_that_does_more_is_not(body: Callable[..., object]) -> None:
    """Whatever reaches outside, here or in what it calls, is found in the code."""
    assert not is_inert(sgl.function(body))


def test_what_is_bound_counts() -> None:
    """An object that is given before the rows may do anything."""
    assert is_inert(sgl.function(plain).bind(q="text"))
    assert not is_inert(sgl.function(plain).bind(q=FILE))


def test_a_closure_is_read() -> None:
    """A variable of an outer function is found, and writing it is seen."""
    number = 0

    def writing(s: sgl.ProgramState, q: str) -> None:
        nonlocal number
        number += 1

    def reading(s: sgl.ProgramState, q: str) -> None:
        s += str(number)

    assert is_inert(sgl.function(reading))
    assert not is_inert(sgl.function(writing))


NESTED: list[Any] = []
for _ in range(5_000):
    NESTED = [NESTED]


def reads_nested(s: sgl.ProgramState, q: str) -> None:
    s += q + str(len(NESTED)) + sgl.gen("a")


def test_what_is_nested_too_deep_to_be_read_counts_as_changing() -> None:
    """A program that uses a list nested thousands of levels deep is not inert."""
    assert not is_inert(sgl.function(reads_nested))
