"""The tracer: what a program says before anything of a row or a model is in it.

The program is run once, by the same executor as ever, with placeholders for arguments
and a backend that answers nothing. Whatever the author's code does, tracing only ends;
it touches nothing that another thread could see.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NoReturn, Self, SupportsIndex

from sglrun.backends.base import (
    Backend,
    Completion,
    OnText,
    Request,
    Selection,
    SelectRequest,
)
from sglrun.interpreter.executor import Settings, StreamExecutor
from sglrun.interpreter.failure import raising_place
from sglrun.interpreter.program import Program
from sglrun.interpreter.run import run_body
from sglrun.interpreter.state import ProgramState
from sglrun.lang import ir
from sglrun.lang.chat_template import ChatTemplate
from sglrun.lang.prompt import Message, Part, Prompt
from sglrun.lang.sampling import SamplingParams

# Private-use characters: no real prompt has them, so what stands before is constant.
_MARK, _END = "\ue000", "\ue001"
_ESCAPED_MARK = "\\ue000"


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedPrefix:
    """What every row's first prompt begins with, and what ends it.

    Attributes:
        prompt: the constant text and messages.
        ended_by: what comes next, in words.
        where: the author's line that brings it, as ``prog.py:12``.
    """

    prompt: Prompt
    ended_by: str
    where: str | None = None


class _TraceEndError(BaseException):
    """Nothing after this point is the same for all rows."""


class Placeholder(str):
    """Stands for an argument: text like any other, whose content is not known.

    What would need the content ends the trace.
    """

    __slots__ = ("name",)
    name: str

    def __new__(cls, name: str) -> Self:
        """Return the placeholder of the argument *name*."""
        made = super().__new__(cls, f"{_MARK}{name}{_END}")
        made.name = name
        return made

    def _unknown(self, what: str) -> NoReturn:
        raise _TraceEndError(f"{what} argument {self.name!r}")

    def __len__(self) -> int:  # noqa: PLE0303 - never returns
        """End the trace."""
        self._unknown("the length of")

    def __iter__(self) -> Iterator[str]:
        """End the trace."""
        self._unknown("iteration over")

    def __contains__(self, item: object) -> bool:
        """End the trace."""
        self._unknown("a search in")

    def __bool__(self) -> bool:  # noqa: PLE0304 - never returns
        """End the trace."""
        self._unknown("the truth of")

    def __eq__(self, other: object) -> bool:
        """End the trace."""
        self._unknown("a comparison of")

    def __hash__(self) -> int:  # noqa: PLE0309 - never returns
        """End the trace."""
        self._unknown("a lookup by")

    def __getitem__(self, key: SupportsIndex | slice) -> str:
        """Stand for any part of the argument too."""
        return self


class _NoAnswers(Backend):
    """A backend that ends the trace at the first thing a model must say."""

    kind = "trace"
    model = "trace"

    def __init__(self, chat_template: ChatTemplate) -> None:
        self.chat_template = chat_template
        self.first_prompt: Prompt | None = None
        self.ended_by = ""

    def generate(self, request: Request, on_text: OnText | None = None) -> Completion:
        del on_text
        self._end(request.prompt, "a generation")

    def select(self, request: SelectRequest) -> Selection:
        self._end(request.prompt, "a select")

    def _end(self, prompt: Prompt, what: str) -> NoReturn:
        if self.first_prompt is None:
            self.first_prompt, self.ended_by = prompt, what
        raise _TraceEndError(what)


def trace_prefix(
    program: Program, *, template: ChatTemplate, given: Iterable[str] | None = None
) -> TracedPrefix:
    """Run *program* once with placeholders; return what all its rows begin with.

    Never raises, whatever the author's code does. Side effects of that code happen.

    Args:
        program: what to trace.
        template: how roles are written.
        given: the arguments that rows give; the others keep their defaults. Every
            parameter is taken to be given where this is ``None``.
    """
    names = set(program.free) if given is None else set(given) | set(program.required)
    arguments: dict[str, object] = {
        name: Placeholder(name) for name in program.free if name in names
    }
    backend, seen = _NoAnswers(template), _Seen()
    settings = Settings(
        backend=backend,
        sampling=SamplingParams(),
        inline=True,
        inline_forks=True,
        observer=seen,
    )
    state = ProgramState(StreamExecutor(settings, Prompt(template=template)))
    reason, where = _trace_body(program, state, arguments)
    prompt = backend.first_prompt or state.stream_executor.evaluator.prompt
    if seen.argument is not None and _mark_in(prompt.text) >= 0:
        reason, where = seen.argument, seen.where
    elif backend.first_prompt is not None:
        reason, where = backend.ended_by, _first_place(state) or where
    return TracedPrefix(prompt=_constant(prompt), ended_by=reason, where=where)


class _Seen:
    """Notes the first argument that is appended."""

    def __init__(self) -> None:
        self.argument: str | None = None
        self.where: str | None = None

    def __call__(self, piece: ir.Piece, where: str | None) -> None:
        if self.argument is None and isinstance(piece, ir.Text):
            at = _mark_in(piece.value)
            if at >= 0:
                name = piece.value[at:].removeprefix(_MARK).partition(_END)[0]
                self.argument, self.where = f"argument {name!r}", where


def _trace_body(
    program: Program, state: ProgramState, arguments: dict[str, object]
) -> tuple[str, str | None]:
    try:
        run_body(program, state, arguments)
    except _TraceEndError as exc:
        return str(exc), raising_place(exc, str(program.path))
    failure = state.failure
    if failure is None or not failure.in_body:
        return "the end of the program", None
    cause = failure.cause
    return f"{type(cause).__name__} while tracing: {cause}", failure.where


def _first_place(state: ProgramState) -> str | None:
    return None if state.failure is None else state.failure.where


def _mark_in(text: str) -> int:
    found = [at for mark in (_MARK, _ESCAPED_MARK) if (at := text.find(mark)) >= 0]
    return min(found, default=-1)


def _constant(prompt: Prompt) -> Prompt:
    at = _mark_in(prompt.text)
    if at < 0:
        return prompt
    cut = replace(prompt, text=prompt.text[:at])
    kept: list[Message] = []
    for message in prompt.messages:
        parts, whole = _constant_parts(message.parts)
        if not whole:
            return replace(
                cut, messages=tuple(kept), role=message.role, open_parts=parts
            )
        kept.append(message)
    parts, _ = _constant_parts(prompt.open_parts)
    return replace(cut, open_parts=parts)


def _constant_parts(parts: tuple[Part, ...]) -> tuple[tuple[Part, ...], bool]:
    kept: list[Part] = []
    for part in parts:
        at = _mark_in(part) if isinstance(part, str) else -1
        if isinstance(part, str) and at >= 0:
            return (*kept, part[:at]) if at else tuple(kept), False
        kept.append(part)
    return tuple(kept), True
