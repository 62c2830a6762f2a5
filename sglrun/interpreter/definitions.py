"""Definitions: the programs that a piece of an author's code defines.

The code is run no further than to where it would run one of them, so that looking for
a program never asks a model anything.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from sglrun.interpreter.program import Program


class WouldRunError(BaseException):
    """The author's code is about to run a program, and is to stop there."""


@dataclass(slots=True)
class Definitions:
    """What was defined so far.

    Attributes:
        programs: the programs by name, in order of definition.
        stopped_by: the program that the code was about to run, if it got there.
    """

    programs: dict[str, Program] = field(default_factory=dict)
    stopped_by: Program | None = None


_collected: ContextVar[Definitions | None] = ContextVar("_collected", default=None)


@contextmanager
def collecting() -> Iterator[Definitions]:
    """Collect the programs that the block defines; leave it where it would run one."""
    definitions = Definitions()
    token = _collected.set(definitions)
    try:
        yield definitions
    except WouldRunError:
        # The block ends here; what it defined is what was looked for.
        return
    finally:
        _collected.reset(token)


def note_definition(program: Program) -> None:
    """Note that *program* was defined, where someone collects."""
    definitions = _collected.get()
    if definitions is not None:
        definitions.programs[program.name] = program


def note_run(program: Program) -> None:
    """Stop the code that is about to run *program*, where someone collects.

    Raises:
        WouldRunError: someone does.
    """
    definitions = _collected.get()
    if definitions is not None:
        definitions.stopped_by = definitions.stopped_by or program
        raise WouldRunError(program.name)
