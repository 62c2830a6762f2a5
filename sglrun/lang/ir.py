"""The intermediate representation: every kind of expression that a program can add.

Rule: an expression is data. What it means is said once, in the executor.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import assert_never

from sglrun.errors import ProgramError
from sglrun.lang.choices import ChoicesMethod
from sglrun.lang.constraints import (
    REGEX_BOOL,
    REGEX_FLOAT,
    REGEX_INT,
    REGEX_STR,
    Dtype,
)
from sglrun.lang.prompt import ImageData
from sglrun.lang.reasoning import ReasoningFormat
from sglrun.lang.sampling import SamplingParams

__all__ = [
    "REGEX_BOOL",
    "REGEX_FLOAT",
    "REGEX_INT",
    "REGEX_STR",
    "Expr",
    "ExprList",
    "Gen",
    "Image",
    "Piece",
    "RoleBegin",
    "RoleEnd",
    "Select",
    "Text",
    "VarScopeBegin",
    "VarScopeEnd",
    "as_expr",
    "flatten",
]


class _Addable:
    """Expressions join with ``+``, to each other and to strings."""

    __slots__ = ()

    def __add__(self, other: object) -> "ExprList":
        return ExprList((*_pieces(self), *_pieces(other)))

    def __radd__(self, other: object) -> "ExprList":
        return ExprList((*_pieces(other), *_pieces(self)))


@dataclass(frozen=True, slots=True)
class Text(_Addable):
    """Text that the author wrote."""

    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Gen(_Addable):
    """A generation, stored under ``name``.

    Attributes:
        name: the variable; ``None`` is a name like any other.
        sampling: what this generation sets over the run's parameters.
        dtype: the type that the text is to spell.
        typed: store the value of ``dtype`` or of the JSON, not its text.
        reasoning: keep what the model thought apart, in ``<name>_reasoning_content``.
    """

    name: str | None = None
    sampling: SamplingParams = field(default_factory=SamplingParams)
    dtype: Dtype | None = None
    typed: bool = False
    reasoning: ReasoningFormat | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Select(_Addable):
    """One of ``choices``, taken by the model's log-probabilities."""

    name: str | None
    choices: tuple[str, ...]
    method: ChoicesMethod
    temperature: float = 0.0


@dataclass(frozen=True, slots=True)
class RoleBegin(_Addable):
    """The beginning of a turn."""

    role: str


@dataclass(frozen=True, slots=True)
class RoleEnd(_Addable):
    """The end of a turn."""

    role: str


@dataclass(frozen=True, slots=True)
class Image(_Addable):
    """An image or a video: its bytes or address."""

    image: ImageData


@dataclass(frozen=True, slots=True)
class VarScopeBegin(_Addable):
    """From here on, text belongs to the variable ``name``."""

    name: str


@dataclass(frozen=True, slots=True)
class VarScopeEnd(_Addable):
    """The variable ``name`` is the text since its scope began."""

    name: str


@dataclass(frozen=True, slots=True)
class ExprList(_Addable):
    """Expressions in order; never lists inside."""

    pieces: tuple["Piece", ...] = ()

    def __iter__(self) -> Iterator["Piece"]:
        """Iterate over the pieces."""
        return iter(self.pieces)


Piece = Text | Gen | Select | RoleBegin | RoleEnd | Image | VarScopeBegin | VarScopeEnd
Expr = Piece | ExprList


def as_expr(given: object) -> Expr:
    """Return what an author appended as an expression.

    Raises:
        ValueError: ``None``, which is what a forgotten ``return`` gives.
        TypeError: anything but a string or an expression.
    """
    if given is None:
        raise ValueError("cannot append None to a program's state")
    if isinstance(given, str):
        return Text(str.__str__(given))  # a plain string, whatever its class
    if isinstance(given, Expr):
        return given
    raise TypeError(
        f"cannot append {given!r} ({type(given).__name__}); "
        "use a string or an expression such as gen(...)"
    )


def flatten(expr: Expr) -> tuple[Piece, ...]:
    """Return the pieces of *expr* in order."""
    return expr.pieces if isinstance(expr, ExprList) else (expr,)


def defines(piece: Piece) -> tuple[str | None, ...]:
    """Return the variables that *piece* assigns."""
    match piece:
        case Gen(name=str(name), reasoning=ReasoningFormat()):
            return (name, reasoning_name(name))
        case Gen(name=name):
            return (name,)
        case Select(name=name):
            return () if name is None else (name,)
        case VarScopeEnd(name=name):
            return (name,)
        case Text() | RoleBegin() | RoleEnd() | Image() | VarScopeBegin():
            return ()
        case _:
            assert_never(piece)


def reasoning_name(name: str) -> str:
    """Return the variable that holds the reasoning of the generation *name*."""
    return f"{name}_reasoning_content"


def role_after(role: str | None, pieces: tuple[Piece, ...]) -> str | None:
    """Return the role that is open after *pieces*, where *role* is open before.

    Raises:
        ProgramError: a role begins inside another, or one ends that is not open.
    """
    for piece in pieces:
        if isinstance(piece, RoleBegin):
            if role is not None:
                raise ProgramError(
                    f"{piece.role!r} begins inside {role!r}; end {role!r} first"
                )
            role = piece.role
        elif isinstance(piece, RoleEnd):
            if role != piece.role:
                opened = f"{role!r} is open" if role else "no role is open"
                raise ProgramError(f"{piece.role!r} ends but {opened}")
            role = None
    return role


def _pieces(given: object) -> tuple[Piece, ...]:
    return flatten(as_expr(given))
