"""The end of a trace: what comes after the constant text, and what to do about it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from sglrun.interpreter.tracing.marks import Marks
from sglrun.interpreter.tracing.value import Fragment
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
class Following:
    """What is said after the constant text, up to the first generation.

    Attributes:
        characters: those that are constant.
        where: the last line of the author that says some.
        names: the arguments that stand before them or between.
    """

    characters: int = 0
    where: str | None = None
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceEnd:
    """What ends the constant text.

    Attributes:
        kind: what sort of thing.
        reason: it, in words.
        where: the author's line.
        prompt: the constant text and messages before it.
        known: the first prompt as far as it is known, with the arguments in it.
        following: constant text that comes after an argument.
    """

    kind: EndKind
    reason: str
    where: str | None
    prompt: Prompt
    known: tuple[Fragment, ...] = ()
    following: Following = Following()

    @property
    def advice(self) -> str:
        """The change to the program that would make the constant text longer."""
        at = self.where or "the end"
        found = self.following
        if self.kind != "argument" or not found.characters:
            return _ADVICE[self.kind].format(at=at)
        names = _listed(found.names)
        if found.characters < _WORTH_MOVING:
            few = f"only {found.characters} constant characters come after {names}"
            return f"no change is worth it: {few}"
        if found.where in (None, self.where):
            change = f"put {names} at the end of what {at} says"
        else:
            change = f"move {names} from {at} to below {found.where}"
        return f"{change}: {found.characters:,} more characters would be shared"


def _listed(names: tuple[str, ...]) -> str:
    shown = [f"{{{name}}}" for name in names[:_MOST_NAMES]]
    more = len(names) - len(shown)
    if more:
        shown.append(f"{more} more")
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if shown[1:] else shown)


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
    if first is not None:
        text = f"of {first}"
    return f"{type(raised).__name__} while tracing: {text}"


_WORTH_MOVING = 64  # characters; less is not worth a change
_MOST_NAMES = 3
_ADVICE: Mapping[str, str] = {
    "argument": "no change is needed: what follows is the row's own text",
    "question": "say what all rows have in common before {at}, where the program "
    "goes by what the row says",
    "generation": "no change is needed: the whole first prompt is shared",
    "fork": "if the branches begin alike, say that once before {at} forks",
    "image": "say what all rows have in common before {at} adds the image",
    "error": "say what all rows have in common before {at}, which fails without a row",
    "budget": "say what all rows have in common before the loop at {at}, which does "
    "not end without a row",
    "time": "let the program do less before its first generation: it was not there "
    "when the time was over",
    "end": "no change is needed: the program asks nothing of a model",
}
