"""The recorder: watches a program that is traced, and answers what it asks.

It notes what ends the constant text, and builds the graph. Where the trace is to end
with the constant text, it ends the program; else it goes on with the usual answers.
"""

import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from sglrun.interpreter.failure import Failure, calling_place, raising_place
from sglrun.interpreter.observer import Observed, Observer
from sglrun.interpreter.tracing.graph import GraphBuilder, Kind, described
from sglrun.interpreter.tracing.marks import Marks, find_mark, has_mark
from sglrun.interpreter.tracing.outcome import outcome_of
from sglrun.interpreter.tracing.placeholder import Placeholder
from sglrun.interpreter.tracing.trace_end import (
    Asks,
    EndKind,
    TraceEnd,
    TraceEndError,
    error_words,
)
from sglrun.interpreter.tracing.traced_stream import TracedStream, common_prefix, shared
from sglrun.interpreter.tracing.value import Value
from sglrun.lang import ir

_MOST_STEPS = 10_000
_USUAL_TIMES = 2  # a question of a loop is answered the other way after this


class Recorder(Observer):
    """What happens in a traced program. The program's thread calls it.

    Attributes:
        marks: the marks of the unknown values.
        graph: the steps so far.
        asks: what the program asks of a model.
    """

    def __init__(self, *, program_file: str, whole: bool) -> None:
        """Watch a program of *program_file*; to its end if *whole*."""
        self.marks = Marks()
        self.graph = GraphBuilder()
        self.asks = Asks()
        self._program_file = program_file
        self._whole = whole
        self._around = sys.exc_info()[1]  # handled by who asked for the trace
        self._streams: list[TracedStream] = []
        self._running: list[int] = []
        self._asked: Counter[tuple[str | None, str]] = Counter()
        self._steps = 0
        self._generation: tuple[ir.Gen, int] | None = None
        self._joined: set[str | None] = set()  # what a join is about to assign
        self._options: dict[int, str] = {}  # of each select the first
        self._appending = 0  # how many pieces it is about to append
        self._ended: TraceEnd | None = None

    @property
    def ended(self) -> TraceEnd:
        """What ended the constant text; known after ``finish``."""
        assert self._ended is not None, "finish comes first"  # noqa: S101
        return self._ended

    def began(self, executor: Observed, name: str) -> None:
        """Note that the program *name* begins to run on *executor*."""
        around = self._running[-1] if self._running else None
        number = self._stream(executor)
        self._running.append(number)
        if around is not None:
            self.graph.begin(number, around)
            self._add("program", number, name=name, where=self._place())

    def left(self, executor: Observed) -> None:
        """Note that a program's body has ended."""
        number = self._stream(executor)
        while self._running and self._running.pop() != number:
            pass
        if self._running:
            self._add("return", self._running[-1], after=(number,))

    def executing(
        self, executor: Observed, piece: ir.Piece, where: str | None
    ) -> ir.Piece:
        """Note *piece*; return what is to be executed in its place.

        Raises:
            TraceEndError: the trace ends here.
        """
        self._count(where)
        number = self._stream(executor)
        raised = sys.exc_info()[1]
        if raised is not None and raised is not self._around:
            # With a row's own values it might not have been raised: what is said while
            # it is handled, the end of a ``with s.user():`` too, is not constant.
            place = raising_place(raised, self._program_file) or where
            self.end("error", error_words(raised, self.marks), place)
            self.asks.is_sure = False
        if isinstance(piece, ir.Gen | ir.Select):
            return self._generate(executor, number, piece, where)
        if isinstance(piece, ir.Image):
            self.end("image", "an image", where)
            self.asks.add(piece, executor.evaluator.prompt, where)
        if self._ended is None:
            self._streams[number].pieces.append((piece, where))
        kind, given = described(piece)
        if "fragments" in given:
            given["fragments"] = self.marks.fragments(*given["fragments"])
        if self._appending:
            self._appending -= 1
            given["parameters"] = {"by": "join"}
        self._add(kind, number, where=where, **given)
        return piece

    def forked(self, executor: Observed, children: Iterable[Observed]) -> None:
        """Note that *children* go on from *executor*."""
        where = self._place()
        self._count(where)
        parent = self._stream(executor)
        begun = tuple(children)
        if begun:
            self.end("fork", "a fork", where)
        numbers = tuple(map(self._stream, begun))
        self._add("fork", parent, where=where, streams=numbers)
        for number in numbers:
            self.graph.begin(number, parent)

    def joining(
        self, executor: Observed, children: Iterable[Observed], mode: str
    ) -> None:
        """Note that *children* are brought back into *executor*."""
        numbers = tuple(map(self._stream, children))
        each = [self._streams[number].executor.evaluator for number in numbers]
        if mode == "gather_variable":
            self._joined = {name for one in each for name in one.assigned}
        else:
            self._appending = sum(len(one.said) for one in each)
        self._add(
            "join",
            self._stream(executor),
            after=numbers,
            name=mode,
            streams=numbers,
            where=self._place(),
        )

    def writing(self, executor: Observed, name: str | None, value: object) -> None:
        """Note that the author assigns *value*."""
        self._count(None)
        self._add(
            "assign",
            self._stream(executor),
            name=name,
            value=outcome_of(value, self.marks),
            parameters={"by": "join"} if name in self._joined else {},
            where=self._place(),
        )
        self._joined.discard(name)

    def reading(self, value: object) -> object:
        """Return *value* with placeholders for what is not known."""
        for stream in self._streams:
            told = stream.executor.evaluator.meta_info
            for name in [name for name in told if type(told[name]) is not Placeholder]:
                about = Value(source="variable", name=name).then(".meta_info")
                told[name] = Placeholder(about.inexact(), self)
        return self.wrapped(value)

    def wrapped(self, value: object) -> object:
        """Return *value* with placeholders for the texts that are not known."""
        # Asking a placeholder for its class, as isinstance does, would end the trace.
        if type(value) is list:
            return [self.wrapped(item) for item in value]
        if type(value) is not str or not has_mark(value):
            return value
        parts = self.marks.fragments(value)
        if len(parts) == 1 and not isinstance(parts[0], str):
            return Placeholder(parts[0].value, self)
        origin = self.marks.first(value) or Value(source="variable", name=None)
        return Placeholder(origin.then("…").inexact(), self, value)

    def likely(self, value: Value) -> str | None:
        """Return the first option of the select that *value* comes from."""
        return None if value.steps else self._options.get(value.node)

    def ask(self, question: str, value: Value, *, usual: bool | None = None) -> bool:
        """Answer *question* about *value*.

        Raises:
            TraceEndError: the trace ends with the constant text.
        """
        where = self._place()
        reason = f"{question} {value}"
        self._count(where)
        self.asks.is_sure = False
        self.end("question", reason, where)
        self._stop_unless_whole(reason)
        self._asked[where, question] += 1
        often = self._asked[where, question] > _USUAL_TIMES
        answer = usual != often
        if self._running:
            taken = {} if usual is None else {"taken": answer}
            self._add(
                "branch",
                self._running[-1],
                name=reason,
                where=where,
                parameters=taken,
            )
        return answer

    def answers(self, number: int) -> list[str]:
        """Return texts that stand for the answers of the generation under way.

        Raises:
            TraceEndError: it is not known which.
        """
        if self._generation is None:  # a batch inside, whose threads are not watched
            reason = "a batch of another program"
            self.end("generation", reason, self._place())
            raise TraceEndError(reason)
        (gen, node), self._generation = self._generation, None
        value = Value(source="variable", name=gen.name, node=node)
        values = [value.then("item", at) for at in range(number)] if number > 1 else []
        return [self._answer(gen, each) for each in values or [value]]

    def end(self, kind: EndKind, reason: str, where: str | None = None) -> None:
        """Note what ends the constant text; only the first thing counts."""
        if self._ended is None:
            self._ended = self._end(kind, reason, where)

    def abandon(self, reason: str) -> None:
        """End the trace though the program goes on; it ends when it is next seen."""
        self.end("time", reason)
        self._whole = False

    def finish(self, executor: Observed, failure: Failure | None) -> None:
        """Note how the program itself ended: with *failure*, if it failed."""
        reason, where = "the end of the program", None
        if failure is not None:
            reason, where = error_words(failure.cause, self.marks), failure.where
            if self._whole:
                self._add("end", self._stream(executor), name=reason, where=where)
        self.end("end" if failure is None else "error", reason, where)

    def _generate(
        self,
        executor: Observed,
        number: int,
        piece: ir.Gen | ir.Select,
        where: str | None,
    ) -> ir.Piece:
        self.asks.add(piece, executor.evaluator.prompt, where)
        kind: Kind = "generate" if isinstance(piece, ir.Gen) else "select"
        if self._ended is None:
            what = "a generation" if kind == "generate" else "a select"
            self._ended = self._end("generation", what, where, (number,))
        self._stop_unless_whole(kind)
        _, given = described(piece)
        if isinstance(piece, ir.Select):
            given["choices"] = tuple(map(self.marks.fragments, piece.choices))
        given["prompt"] = self.marks.fragments(executor.evaluator.prompt.text)
        node = self._add(kind, number, where=where, **given)
        if isinstance(piece, ir.Select):
            value = Value(source="variable", name=piece.name, node=node)
            self._options[node] = str.__str__(piece.choices[0])
            return replace(piece, choices=(self.marks.text(value),))
        self._generation = piece, node
        # The text stands for any value: none can be parsed out of it.
        return replace(piece, typed=False)

    def _answer(self, gen: ir.Gen, value: Value) -> str:
        text = self.marks.text(value)
        if gen.reasoning is None:
            return text
        thought = replace(value, name=ir.reasoning_name(gen.name or ""))
        begin, end = gen.reasoning.begin, gen.reasoning.end
        return f"{begin}{self.marks.text(thought)}{end}{text}"

    def _end(
        self,
        kind: EndKind,
        reason: str,
        where: str | None,
        candidates: Iterable[int] | None = None,
    ) -> TraceEnd:
        """Return the end, given that the first prompt is one of *candidates*' or on."""
        streams = [
            self._streams[at]
            for at in (range(len(self._streams)) if candidates is None else candidates)
        ]
        text = common_prefix([each.text for each in streams])
        at = find_mark(text)
        known = self.marks.fragments(text)
        prompt = shared(streams, len(text) if at < 0 else at)
        found = TraceEnd(
            kind=kind, reason=reason, where=where, prompt=prompt, known=known
        )
        if at < 0:
            return found
        first = self.marks.first(text)
        return replace(
            found,
            kind="argument",
            reason=str(first or "an argument, encoded"),
            where=next(filter(None, (each.marked_place() for each in streams)), where),
            following=max(
                (each.following(self.marks) for each in streams),
                key=lambda following: following.characters,
            ),
        )

    def _stop_unless_whole(self, reason: str) -> None:
        if not self._whole:
            raise TraceEndError(reason)

    def _count(self, where: str | None) -> None:
        if self._ended is not None:
            self._stop_unless_whole(self._ended.reason)
        self._steps += 1
        if self._steps > _MOST_STEPS:
            reason = f"more than {_MOST_STEPS:,} steps"
            for stream in self._streams:  # how often a loop runs is not constant
                stream.forget_from(where)
            self.end("budget", reason, where)
            raise TraceEndError(reason)

    def _stream(self, executor: Observed) -> int:
        for number, stream in enumerate(self._streams):
            if stream.executor is executor:
                return number
        self._streams.append(TracedStream(executor, executor.evaluator.prompt))
        return len(self._streams) - 1

    def _add(self, kind: Kind, stream: int, **given: Any) -> int:
        return self.graph.add(kind, stream, **given).id

    def _place(self) -> str | None:
        return calling_place(self._program_file)
