"""The constant text: what every row's first prompt begins with, and what ends it.

Whose prompt is the first is known when a request comes. What comes before, a fork or an
image, may yet be overtaken by another program that is called; a question about an
unknown value may leave that open for good.
"""

from collections.abc import Sequence
from dataclasses import replace

from sglrun.interpreter.observer import Observed
from sglrun.interpreter.program import Program
from sglrun.interpreter.tracing.marks import Marks, find_mark
from sglrun.interpreter.tracing.reach import may_call_another
from sglrun.interpreter.tracing.trace_end import EndKind, TraceEnd
from sglrun.interpreter.tracing.traced_stream import (
    TracedStream,
    common_prefix,
    shared,
)
from sglrun.lang import ir

_Halt = tuple[list[TracedStream], EndKind, str, str | None]


class ConstantText:
    """The prompts of a traced program, and where they cease to be constant.

    Attributes:
        streams: the prompts, in the order in which they began.
        ended: what ended the constant text, once something has.
    """

    def __init__(self, program: Program, marks: Marks) -> None:
        """Begin without prompts of *program*; unknown values stand as *marks*."""
        self.streams: list[TracedStream] = []
        self.ended: TraceEnd | None = None
        self._program = program
        self._marks = marks
        self._halted: _Halt | None = None

    def number_of(self, executor: Observed) -> int:
        """Return the number of the prompt that *executor* writes."""
        for number, stream in enumerate(self.streams):
            if stream.executor is executor:
                return number
        self.streams.append(TracedStream(executor, executor.evaluator.prompt))
        return len(self.streams) - 1

    def add(self, number: int, piece: ir.Piece, where: str | None) -> None:
        """Add *piece* to a prompt."""
        if self.ended is None:
            self.streams[number].pieces.append((piece, where))

    def halt(self, kind: EndKind, reason: str, where: str | None) -> None:
        """Note what ends it, unless another program asks first."""
        if self._halted is None and self.ended is None:
            before = [each.as_now() for each in self.streams]
            self._halted = before, kind, reason, where

    def ask(self, number: int, reason: str, where: str | None) -> None:
        """Note that the first request comes from a prompt; only the first counts."""
        if self.ended is None:
            self._end([self.streams[number]], "generation", reason, where)

    def end(self, kind: EndKind, reason: str, where: str | None = None) -> None:
        """Note what ends it before a request; only the first counts."""
        if self.ended is not None:
            return
        streams = list(self.streams)
        if streams and may_call_another(self._program):
            streams.append(streams[0].unsaid())
        self._end(streams, kind, reason, where)

    def forget_from(self, where: str | None) -> None:
        """Forget what was added from the first piece of the line *where* on."""
        for stream in self.streams:
            stream.forget_from(where)

    def _end(
        self,
        streams: list[TracedStream],
        kind: EndKind,
        reason: str,
        where: str | None,
    ) -> None:
        if self._halted is not None:
            before, kind, reason, where = self._halted
            streams = [*before, *streams]
        self.ended = _ending(
            streams, self._marks, kind=kind, reason=reason, where=where
        )


def _ending(
    streams: Sequence[TracedStream],
    marks: Marks,
    *,
    kind: EndKind,
    reason: str,
    where: str | None,
) -> TraceEnd:
    """Return what ends the constant text, where the first prompt is one of *streams*.

    Args:
        streams: those that it may be, or become.
        marks: those of the trace.
        kind: what comes next, if no unknown value came before.
        reason: the same in words.
        where: the author's line that brings it.
    """
    text = common_prefix([each.text for each in streams])
    at = find_mark(text)
    found = TraceEnd(
        kind=kind,
        reason=reason,
        where=where,
        prompt=shared(streams, len(text) if at < 0 else at),
        known=marks.fragments(text),
    )
    if at < 0:
        return found
    return replace(
        found,
        kind="argument",
        reason=str(marks.first(text)),
        where=next(filter(None, (each.marked_place() for each in streams)), where),
        following=max(
            (each.following(marks) for each in streams),
            key=lambda following: following.characters,
        ),
    )
