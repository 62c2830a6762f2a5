"""The end of a trace: what comes after the constant text, and what to do about it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from sglrun.interpreter.tracing.graph import Fragment
from sglrun.interpreter.tracing.marks import Marks, has_mark
from sglrun.lang import ir
from sglrun.lang.prompt import Prompt

EndKind = Literal[
    "argument",
    "question",
    "generation",
    "fork",
    "image",
    "error",
    "budget",
    "time",
    "end",
]


class TraceEndError(BaseException):
    """Nothing after this point is known; no ``except Exception`` may hide that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceEnd:
    """What ends the constant text.

    Attributes:
        kind: what sort of thing.
        reason: it, in words.
        where: the author's line.
        prompt: the constant text and messages before it.
        known: the first prompt as far as it is known, with the arguments in it.
        constant_after: constant characters of it that come after ``prompt``.
    """

    kind: EndKind
    reason: str
    where: str | None
    prompt: Prompt
    known: tuple[Fragment, ...] = ()
    constant_after: int = 0

    @property
    def advice(self) -> str:
        """The change to the program that would make the constant text longer."""
        at = self.where or "the end"
        if self.kind == "argument" and self.constant_after:
            return (
                f"say the {self.constant_after:,} constant characters that follow it "
                f"before {at} uses it"
            )
        return _ADVICE[self.kind].format(at=at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a program asks of a model, unknown values in its texts.

    Attributes:
        piece: the generation or choice, or an image that comes before it.
        prompt: what stands before it.
        where: the author's line.
        is_sure: every row comes to it, whatever its values and the answers.
    """

    piece: ir.Gen | ir.Select | ir.Image
    prompt: Prompt
    where: str | None
    is_sure: bool = True


class Asks:
    """What a program asks of a model, in order.

    Attributes:
        every: all of it.
        is_sure: every row comes as far as the trace is now.
    """

    def __init__(self) -> None:
        """Begin without any."""
        self.every: list[Asked] = []
        self.is_sure = True

    def add(
        self, piece: ir.Gen | ir.Select | ir.Image, prompt: Prompt, where: str | None
    ) -> None:
        """Note that *piece* is asked after *prompt*."""
        self.every.append(
            Asked(piece=piece, prompt=prompt, where=where, is_sure=self.is_sure)
        )

    @property
    def first_prompt(self) -> Prompt | None:
        """What stands before the first generation or choice."""
        requests = (one for one in self.every if not isinstance(one.piece, ir.Image))
        return next((one.prompt for one in requests), None)


def error_words(raised: BaseException, marks: Marks) -> str:
    """Return what *raised* says about a trace, marks in words."""
    text = str(raised)
    if isinstance(raised, TraceEndError):
        return text
    first = marks.first(text)
    if first is not None or has_mark(text):
        text = f"of {first or 'an unknown value'}"
    return f"{type(raised).__name__} while tracing: {text}"


_ADVICE: Mapping[str, str] = {
    "argument": "none is needed: only the row's own text follows",
    "question": "say what is constant before {at} looks at the value",
    "generation": "none is needed: the whole first prompt is shared",
    "fork": "say what the branches share before {at} forks",
    "image": "say what is constant before {at} adds the image",
    "error": "say what is constant before {at}, which fails without a row's value",
    "budget": "say what is constant before the loop at {at}",
    "time": "make the program's own code faster, or do it before the program",
    "end": "none is needed: the program says nothing more",
}
