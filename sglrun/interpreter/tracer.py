"""The tracer: what a program says before anything of a row or a model is in it.

The program is run once, by the same executor as ever, with placeholders for arguments
and a backend that answers nothing. Whatever the author's code does, tracing only ends;
it touches nothing that another thread could see.
"""

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import NoReturn

from sglrun.backends.base import (
    Backend,
    Capabilities,
    Completion,
    OnText,
    Request,
    Selection,
    SelectRequest,
)
from sglrun.interpreter.executor import Settings, StreamExecutor
from sglrun.interpreter.failure import Failure, raising_place
from sglrun.interpreter.placeholder import (
    END,
    ESCAPED_END,
    ESCAPED_MARK,
    MARK,
    Placeholder,
    TraceEndError,
)
from sglrun.interpreter.program import Program
from sglrun.interpreter.run import run_body
from sglrun.interpreter.state import ProgramState
from sglrun.lang import ir
from sglrun.lang.chat_template import ChatTemplate
from sglrun.lang.prompt import Message, Part, Prompt
from sglrun.lang.sampling import SamplingParams


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


class TraceBackend(Backend):
    """A backend that ends the trace at the first thing a model must say.

    Attributes:
        ended_at: what was said until then, once the trace has ended.
        ended_by: what ended it, in words.
        where: the author's line, where it is known.
        said: what the traced program has said so far.
    """

    kind = "trace"
    model = "trace"
    capabilities = Capabilities(images=True)

    def __init__(self, chat_template: ChatTemplate) -> None:
        """Begin with nothing said."""
        self.chat_template = chat_template
        self.ended_at: Prompt | None = None
        self.ended_by = ""
        self.where: str | None = None
        self.said: Callable[[], Prompt] = lambda: Prompt(template=chat_template)

    def generate(self, request: Request, on_text: OnText | None = None) -> Completion:
        """End the trace."""
        del on_text
        self._asked(request.prompt, "a generation")

    def select(self, request: SelectRequest) -> Selection:
        """End the trace."""
        self._asked(request.prompt, "a select")

    def end(self, prompt: Prompt, what: str, where: str | None = None) -> None:
        """Note what ends the trace; only the first thing counts."""
        if self.ended_at is None:
            self.ended_at, self.ended_by, self.where = prompt, what, where

    def _asked(self, prompt: Prompt, what: str) -> NoReturn:
        said = self.said()
        if prompt is said or not prompt.text.startswith(said.text):
            self.end(prompt, what)  # asked by the program itself, or by one it calls
        else:
            self.end(said, "a fork")  # branches go on in several ways
        raise TraceEndError(what)


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
    backend = TraceBackend(template)
    watch = _Watch(backend)
    settings = Settings(
        backend=backend,
        sampling=SamplingParams(),
        inline=True,
        inline_forks=True,
        observer=watch,
    )
    state = ProgramState(StreamExecutor(settings, Prompt(template=template)))
    backend.said = lambda: state.stream_executor.evaluator.prompt
    run_body(program, state, arguments)
    failure = state.failure
    where = None if failure is None else failure.where
    backend.end(backend.said(), _why(failure), where)
    prompt = backend.ended_at or backend.said()
    reason, where = backend.ended_by, backend.where or where
    name = _argument_in(prompt.text)
    if name is not None:
        reason, where = f"argument {name!r}", watch.where or where
    return TracedPrefix(prompt=_constant(prompt), ended_by=reason, where=where)


class _Watch:
    """Notes where the first argument is appended, and what makes the rest uncertain."""

    def __init__(self, backend: TraceBackend) -> None:
        self.where: str | None = None
        self._backend = backend
        self._around = sys.exc_info()[1]  # handled by who asked for the trace

    def __call__(self, piece: ir.Piece, where: str | None) -> None:
        raised = sys.exc_info()[1]
        if raised is not None and raised is not self._around:
            # With a row's own values it might not have been raised: what is said while
            # it is handled, the end of a ``with s.user():`` too, is not constant.
            place = raising_place(raised, "") or where
            self._backend.end(self._backend.said(), _in_words(raised), place)
        elif isinstance(piece, ir.Image):
            self._backend.end(self._backend.said(), "an image", where)
        elif isinstance(piece, ir.Text) and _mark_in(piece.value) >= 0:
            self.where = self.where or where


def _why(failure: Failure | None) -> str:
    return "the end of the program" if failure is None else _in_words(failure.cause)


def _in_words(raised: BaseException) -> str:
    if isinstance(raised, TraceEndError):
        return str(raised)
    name = _argument_in(str(raised))
    what = str(raised) if name is None else f"of argument {name!r}"
    return f"{type(raised).__name__} while tracing: {what}"


def _argument_in(text: str) -> str | None:
    at = _mark_in(text)
    if at < 0:
        return None
    rest = text[at:].removeprefix(ESCAPED_MARK).removeprefix(MARK)
    return rest.partition(ESCAPED_END if text.startswith(ESCAPED_MARK, at) else END)[0]


def _mark_in(text: str) -> int:
    found = [at for mark in (MARK, ESCAPED_MARK) if (at := text.find(mark)) >= 0]
    return min(found, default=-1)


def _before_mark(text: str) -> str:
    # JSON's quote before it belongs to the argument, which may be no string.
    return text[: _mark_in(text)].removesuffix('"')


def _constant(prompt: Prompt) -> Prompt:
    at = _mark_in(prompt.text)
    if at < 0:
        return prompt
    loose = prompt.loose_text
    if _mark_in(loose) >= 0:
        loose = _before_mark(loose)
    cut = replace(prompt, text=_before_mark(prompt.text), loose_text=loose)
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
            before = _before_mark(part)
            return (*kept, before) if before else tuple(kept), False
        kept.append(part)
    return tuple(kept), True
