"""A program: the author's function and the arguments that it takes."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import CodeType, MappingProxyType
from typing import Self

from sglrun.errors import ProgramError

_NOTHING: Mapping[str, object] = MappingProxyType({})


# Two programs are the same only if they are one: scripts keep them as keys.
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Program:
    """A function whose first parameter is the state; see ``function``.

    Attributes:
        func: the author's function.
        name: its name.
        parameters: what it takes besides the state, in order.
        required: those of them without a default.
        by_name: those of them that are never given by position.
        takes_any: it has ``**kwargs``.
        bound: arguments fixed by ``bind``.
        num_api_spec_tokens: the budget of speculation for API models.
    """

    func: Callable[..., object]
    name: str
    parameters: tuple[str, ...]
    required: tuple[str, ...]
    by_name: tuple[str, ...] = ()
    takes_any: bool = False
    bound: Mapping[str, object] = field(default_factory=lambda: _NOTHING)
    num_api_spec_tokens: int | None = None

    @property
    def path(self) -> Path:
        """The file that the function stands in."""
        return Path(_code(self.func).co_filename)

    @property
    def line(self) -> int:
        """The line that the function begins at."""
        return _code(self.func).co_firstlineno

    @property
    def free(self) -> tuple[str, ...]:
        """The parameters that are not bound."""
        return tuple(name for name in self.parameters if name not in self.bound)

    def takes(self, name: str) -> bool:
        """Return whether *name* can be given as an argument."""
        return self.takes_any or (name in self.parameters and name not in self.bound)

    def check_arguments(self, names: Iterable[str]) -> None:
        """Check that a run with the arguments *names* can begin.

        Raises:
            ProgramError: one is missing, unknown, or bound already.
        """
        given = set(names)
        missing = [
            name
            for name in self.required
            if name not in given and name not in self.bound
        ]
        if missing:
            raise ProgramError(f"missing argument {_listed(missing)} ({self._takes()})")
        twice = given & self.bound.keys()
        if twice:
            raise ProgramError(f"{_listed(twice)} is bound already and given again")
        unknown = [name for name in sorted(given) if not self.takes(name)]
        if unknown:
            raise ProgramError(f"unknown argument {_listed(unknown)} ({self._takes()})")

    def _takes(self) -> str:
        return f"the program {self.name!r} takes {', '.join(self.free) or 'none'}"

    def bind(self, **arguments: object) -> Self:
        """Return this program with *arguments* fixed.

        Raises:
            ProgramError: the function has no such parameter.
        """
        for name in arguments:
            if not self.takes_any and name not in self.parameters:
                raise ProgramError(f"cannot bind {name!r}: {self._takes()}")
        return replace(self, bound=MappingProxyType({**self.bound, **arguments}))

    def arguments(
        self, args: tuple[object, ...], kwargs: Mapping[str, object]
    ) -> dict[str, object]:
        """Return positional and named arguments by name; positions skip bound ones.

        Raises:
            ProgramError: too many, one twice, or one is missing.
        """
        places = [name for name in self.free if name not in self.by_name]
        if len(args) > len(places):
            raise ProgramError(
                f"{len(args)} arguments given by position; {self._takes()}"
            )
        given = dict(zip(places, args, strict=False))
        twice = given.keys() & kwargs.keys()
        if twice:
            raise ProgramError(f"{_listed(twice)} is given twice")
        given |= kwargs
        self.check_arguments(given)
        return given


def _listed(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in sorted(names))


def _code(func: Callable[..., object]) -> CodeType:
    code: CodeType = inspect.unwrap(func).__code__
    return code
