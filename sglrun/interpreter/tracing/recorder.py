"""The recorder: watches a program that is traced, and answers what it asks.

It notes what ends the constant text, and builds the graph. Where the trace is to end
with the constant text, it ends the program; else it goes on with the usual answers.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from sglrun.interpreter.failure import Failure, calling_place, raising_place
from sglrun.interpreter.observer import Observed, Observer
from sglrun.interpreter.program import Program
from sglrun.interpreter.tracing.constant_text import ConstantText
from sglrun.interpreter.tracing.graph import GraphBuilder, Kind, described
from sglrun.interpreter.tracing.marks import Marks
from sglrun.interpreter.tracing.operations import Operations
from sglrun.interpreter.tracing.outcome import Outcome, outcome_of
from sglrun.interpreter.tracing.placeholder import Placeholder
from sglrun.interpreter.tracing.trace_end import (
    Asks,
    TraceEnd,
    TraceEndError,
    error_words,
)
from sglrun.interpreter.tracing.value import Mark, Value
from sglrun.lang import ir

_ASKS: Mapping[Kind, str] = {"generate": "a generation", "select": "a select"}
_MOST_STEPS = 10_000
_USUAL_TIMES = 2  # a question of a loop is answered the other way after this


class Recorder(Observer):
    """What happens in a traced program. The program's thread calls it.

    Attributes:
        marks: the marks of the unknown values.
        graph: the steps so far.
        asks: what the program asks of a model.
        text: its prompts, as far as they are constant.
        losses: what is not done though a row would do it, with the author's lines.
        operations: what the author's rewritten code does.
        reads_markup: text was read in which a chat template's markup may be.
    """

    def __init__(self, program: Program, *, whole: bool) -> None:
        """Watch *program*; to its end if *whole*."""
        self.marks = Marks()
        self.graph = GraphBuilder()
        self.asks = Asks()
        self.reads_markup = False
        self.losses: list[tuple[str | None, str]] = []
        self._program_file = str(program.path)
        self.operations = Operations(self, program)
        self._whole = whole
        self._around = sys.exc_info()[1]  # handled by who asked for the trace
        self.text = ConstantText(program, self.marks)
        self._running: list[int] = []
        self._asked: Counter[tuple[str | None, str]] = Counter()
        self.steps = 0
        self._generation: tuple[ir.Gen, int] | None = None
        self._assigned: list[tuple[object, Outcome, str, str | None]] = []
        self._joined: set[str | None] = set()  # what a join is about to assign
        self._options: dict[int, str] = {}  # of each select the first
        self._appending = 0  # how many pieces it is about to append
        self._is_over = False  # written by whoever waits for the trace
        self._checks: list[Value] = []

    @property
    def ended(self) -> TraceEnd:
        """What ended the constant text; known after ``finish``."""
        assert self.text.ended is not None, "finish comes first"  # noqa: S101
        return self.text.ended

    @property
    def checks(self) -> tuple[Value, ...]:
        """What the author's code makes after the last step."""
        return tuple(dict.fromkeys(self._checks))

    def began(self, executor: Observed, name: str) -> None:
        """Note that the program *name* begins to run."""
        self.steps += 1  # whoever calls a program says something
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
            self.text.end("error", error_words(raised, self.marks), place)
            self.asks.is_sure = False
        if isinstance(piece, ir.Gen | ir.Select):
            return self._generate(executor, number, piece, where)
        if isinstance(piece, ir.Image):
            self.text.halt("image", "an image", where)
            self.asks.add(piece, executor.evaluator.prompt, where)
        self.text.add(number, piece, where)
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
            self.text.halt("fork", "a fork", where)
        numbers = tuple(map(self._stream, begun))
        self._add("fork", parent, where=where, streams=numbers)
        for number in numbers:
            self.graph.begin(number, parent)

    def joining(
        self, executor: Observed, children: Iterable[Observed], mode: str
    ) -> None:
        """Note that *children* are brought back into *executor*."""
        numbers = tuple(map(self._stream, children))
        each = [self.text.streams[number].executor.evaluator for number in numbers]
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
        where, outcome = self._place(), outcome_of(value, self.marks)
        self._add(
            "assign",
            self._stream(executor),
            name=name,
            value=outcome,
            parameters={"by": "join"} if name in self._joined else {},
            where=where,
        )
        self._assigned.append((value, outcome, f"variable {name!r}", where))
        self._joined.discard(name)

    def following(self, func: Callable[..., object]) -> Callable[..., object]:
        """Return the author's *func*, rewritten."""
        return self.operations.code.followed(func)

    def reading(self, value: object) -> object:
        """Return *value* with placeholders for what is not known."""
        evaluators = [each.executor.evaluator for each in self.text.streams]
        for told in (evaluator.meta_info for evaluator in evaluators):
            for name in [name for name in told if type(told[name]) is not Placeholder]:
                about = Value(source="variable", name=name).then(".meta_info")
                told[name] = Placeholder(about.inexact(), self)
        made = self.operations.read(value)
        if isinstance(value, str) and not _is_one(made):
            self.reads_markup |= any(each.prompt.is_chat for each in evaluators)
        return made

    def made(self, value: Value) -> None:
        """Note that the author's code makes *value* here, which a row may not have.

        Raises:
            TraceEndError: the error would be handled, and the trace ends.
        """
        if self.operations.code.is_guarded():
            self.ask("an error of", value, usual=False)
        else:
            self._checks.append(value)

    def lost(self, what: str, value: Value) -> None:
        """Note that *what* is not done to *value*, though a row would do it."""
        if self.operations.code.is_guarded():
            self.ask(f"an error of {what} with", value, usual=False)
        self.losses.append((self._place(), f"what {what} does with {value}"))

    def go_on(self) -> None:
        """Do nothing.

        Raises:
            TraceEndError: nobody waits for the trace any more.
        """
        if self._is_over and self.text.ended is not None:
            raise TraceEndError(self.text.ended.reason)

    def likely(self, value: Value) -> str | None:
        """Return the first option of the select that *value* comes from."""
        alone = value.fragments[0] if len(value.fragments) == 1 else None
        if value.is_composed and isinstance(alone, Mark):  # as it is read
            value = alone.value
        return None if value.steps else self._options.get(value.node)

    def ask(self, question: str, value: Value, *, usual: bool | None = None) -> bool:
        """Answer *question* about *value*.

        Raises:
            TraceEndError: the trace ends with the constant text.
        """
        self.operations.helpers.leave(self.steps)
        where = self._place()
        reason = f"{question} {value}"
        self._count(where)
        self.asks.is_sure = False
        self.text.end("question", reason, where)
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
            self.text.end("generation", reason, self._place())
            raise TraceEndError(reason)
        (gen, node), self._generation = self._generation, None
        value = Value(source="variable", name=gen.name, node=node)
        values = [value.then("item", at) for at in range(number)] if number > 1 else []
        return [self._answer(gen, each) for each in values or [value]]

    def abandon(self, reason: str) -> None:
        """End the trace though the program goes on; it ends when it is next seen."""
        self.text.end("time", reason)
        self._whole = False
        self._is_over = True

    def finish(self, executor: Observed, failure: Failure | None) -> None:
        """Note how the program itself ended: with *failure*, if it failed."""
        for value, outcome, name, at in self._assigned:
            if outcome_of(value, self.marks) != outcome:
                self.losses.append((at, f"a change of {name} after it is assigned"))
        reason, where = "the end of the program", None
        if failure is not None:
            reason, where = error_words(failure.cause, self.marks), failure.where
            if self._whole:
                self._add("end", self._stream(executor), name=reason, where=where)
        self.text.end("end" if failure is None else "error", reason, where)

    def _generate(
        self,
        executor: Observed,
        number: int,
        piece: ir.Gen | ir.Select,
        where: str | None,
    ) -> ir.Piece:
        self.asks.add(piece, executor.evaluator.prompt, where)
        kind: Kind = "generate" if isinstance(piece, ir.Gen) else "select"
        self.text.ask(number, _ASKS[kind], where)
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

    def _stop_unless_whole(self, reason: str) -> None:
        if not self._whole:
            raise TraceEndError(reason)

    def _count(self, where: str | None) -> None:
        if self.text.ended is not None:
            self._stop_unless_whole(self.text.ended.reason)
        self.steps += 1
        if self.steps > _MOST_STEPS:
            reason = f"more than {_MOST_STEPS:,} steps"
            self.text.forget_from(where)  # how often a loop runs is not constant
            self.text.end("budget", reason, where)
            raise TraceEndError(reason)

    def _stream(self, executor: Observed) -> int:
        return self.text.number_of(executor)

    def _add(self, kind: Kind, stream: int, **given: Any) -> int:
        checks, self._checks = self.checks, []
        return self.graph.add(kind, stream, checks=checks, **given).id

    def _place(self) -> str | None:
        return calling_place(self._program_file)


def _is_one(given: object) -> bool:
    """Return whether *given* stands for one value, not for a text."""
    return type(given) is Placeholder and not given.value.is_composed
