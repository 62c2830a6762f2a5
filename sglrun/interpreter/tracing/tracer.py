"""The tracer: what is known of a program before any row and any answer.

The program is run once, in a thread of its own, by the same executor as ever, with
placeholders for arguments and a backend that asks no model. Whatever the author's code
does, tracing only ends; it touches nothing that another thread could see.
"""

import contextvars
import sys
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sglrun.backends.base import (
    Backend,
    Capabilities,
    Completion,
    OnText,
    Request,
    Sample,
    Selection,
    SelectRequest,
    Usage,
)
from sglrun.interpreter.executor import Settings, StreamExecutor
from sglrun.interpreter.program import Program
from sglrun.interpreter.run import run_body
from sglrun.interpreter.state import ProgramState
from sglrun.interpreter.tracing.graph import Graph
from sglrun.interpreter.tracing.outcome import NOTHING, Outcome, outcome_of
from sglrun.interpreter.tracing.placeholder import Placeholder
from sglrun.interpreter.tracing.recorder import Recorder
from sglrun.interpreter.tracing.trace_end import Asked
from sglrun.interpreter.tracing.value import Fragment, Value
from sglrun.lang import ir
from sglrun.lang.chat_template import ChatTemplate
from sglrun.lang.prompt import Prompt
from sglrun.lang.sampling import SamplingParams

_LIMIT_S = 30.0

is_traced: contextvars.ContextVar[bool] = contextvars.ContextVar(
    "is_traced", default=False
)
"""Whether the code that asks is run with placeholders, not for a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedPrefix:
    """What every row's first prompt begins with, and what ends it.

    Attributes:
        prompt: the constant text and messages.
        ended_by: what comes next, in words.
        where: the author's line that brings it, as ``prog.py:12``.
        advice: the change to the program that would make the prefix longer.
        known: the first prompt as far as it is known, with the arguments in it.
    """

    prompt: Prompt
    ended_by: str
    where: str | None = None
    advice: str = ""
    known: tuple[Fragment, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """What is known of a program before it runs.

    Attributes:
        prefix: what every row's first prompt begins with.
        graph: the steps, as far as they were traced.
        first_prompt: the first request's, where no unknown value stands before it
            and the trace came so far.
        returned: what the program returns.
        asked: what it asks of a model, as far as it was traced.
        checks: what the author's code makes after the last step, as in ``Node``.
        losses: what is not done though a row would do it, with the author's lines.
        reads_markup: the author's code reads text in which a template's markup may be.
        only_selects: it was traced to its end, and generates nothing on that way.
    """

    prefix: TracedPrefix
    graph: Graph
    first_prompt: Prompt | None = None
    returned: Outcome = NOTHING
    asked: tuple[Asked, ...] = field(default=(), compare=False)
    checks: tuple[Value, ...] = ()
    losses: tuple[tuple[str | None, str], ...] = ()
    reads_markup: bool = False
    only_selects: bool = False


class TraceBackend(Backend):
    """A backend that asks no model: what it answers stands for any answer.

    Attributes:
        recorder: what it is told by the executor; knows the answers.
    """

    kind = "trace"
    model = "trace"
    capabilities = Capabilities(images=True, videos=True, video_frames=True)

    def __init__(self, chat_template: ChatTemplate, recorder: Recorder) -> None:
        """Answer with what *recorder* has for each generation."""
        self.chat_template = chat_template
        self.recorder = recorder

    def generate(self, request: Request, on_text: OnText | None = None) -> Completion:
        """Return texts that stand for the answers."""
        del on_text
        texts = self.recorder.answers(request.sampling.n)
        return Completion(
            samples=tuple(Sample(text=text, finish_reason="stop") for text in texts),
            usage=Usage(),
        )

    def select(self, request: SelectRequest) -> Selection:
        """Return the text that stands for the choice."""
        return Selection(chosen=request.choices[0], usage=Usage())


def trace_prefix(
    program: Program, *, template: ChatTemplate, given: Iterable[str] | None = None
) -> TracedPrefix:
    """Run *program* once, up to its first generation; return what rows begin with.

    Never raises, whatever the author's code does. Side effects of that code up to
    there happen.

    Args:
        program: what to trace.
        template: how roles are written.
        given: the arguments that rows give; the others keep their defaults. Every
            parameter is taken to be given where this is ``None``.
    """
    return _trace(program, template, _names(program, given), {}, whole=False).prefix


def trace_program(
    program: Program,
    *,
    template: ChatTemplate,
    given: Iterable[str] | None = None,
    arguments: Mapping[str, object] | None = None,
    whole: bool = True,
) -> Trace:
    """Run *program* once to its end, with stand-ins for all that a model would say.

    Never raises, whatever the author's code does. Its side effects happen.

    Args:
        program: what to trace.
        template: how roles are written.
        given: as for ``trace_prefix``.
        arguments: values of arguments that are known, as those of one row.
        whole: run it to its end; else up to its first generation.
    """
    known = dict(arguments or {})
    names = _names(program, given) if arguments is None else set(program.required)
    return _trace(program, template, names - known.keys(), known, whole=whole)


def first_prompt(
    program: Program, arguments: Mapping[str, object], *, template: ChatTemplate
) -> Prompt:
    """Return what *program* says before its first generation with *arguments*.

    It runs up to there. Never raises; what is said before an error counts.
    """
    return _trace(program, template, set(), arguments, whole=False).prefix.prompt


def _names(program: Program, given: Iterable[str] | None) -> set[str]:
    if given is None:
        return set(program.free)
    names = {*given, *program.required}
    return {name for name in names if program.takes(name)}


def _trace(
    program: Program,
    template: ChatTemplate,
    unknown: set[str],
    known: Mapping[str, object],
    *,
    whole: bool,
) -> Trace:
    recorder = Recorder(program, whole=whole)
    if program.takes_any and not known and unknown == set(program.free):
        where = f"{program.path.name}:{program.line}"
        recorder.text.end("question", "arguments of any name", where)
    arguments = dict(known)
    for name in sorted(unknown):
        value = Value(source="argument", name=name)
        arguments[name] = Placeholder(value, recorder)
    settings = Settings(
        backend=TraceBackend(template, recorder),
        sampling=SamplingParams(),
        inline=True,
        inline_forks=True,
        observer=recorder,
    )
    state = ProgramState(StreamExecutor(settings, Prompt(template=template)))

    def body() -> None:
        is_traced.set(True)
        sys.setprofile(recorder.operations.watch)  # of this thread alone
        run_body(program, state, arguments)

    # In a thread, what stops a thread (``sys.exit``) stops the trace alone.
    context = contextvars.copy_context()
    thread = threading.Thread(
        target=context.run, args=(body,), name="sglrun-trace", daemon=True
    )
    thread.start()
    thread.join(_LIMIT_S)
    if thread.is_alive():
        recorder.abandon(f"{_LIMIT_S:g} s of the program's own code")
    return _finished(recorder, state, whole=whole)


def _finished(recorder: Recorder, state: ProgramState, *, whole: bool) -> Trace:
    recorder.finish(state.stream_executor, state.failure)
    end = recorder.ended
    return Trace(
        prefix=TracedPrefix(
            prompt=end.prompt,
            ended_by=end.reason,
            where=end.where,
            advice=end.advice,
            known=end.known,
        ),
        graph=recorder.graph.build(),
        first_prompt=recorder.asks.first_prompt,
        asked=tuple(recorder.asks.every),
        returned=outcome_of(state.ret_value, recorder.marks, state),
        checks=recorder.checks,
        losses=tuple(recorder.losses),
        reads_markup=recorder.reads_markup,
        only_selects=whole
        and not any(isinstance(one.piece, ir.Gen) for one in recorder.asks.every),
    )
