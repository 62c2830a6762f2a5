"""The stream executor: one program's expressions, in order, against a backend.

Rule: it owns the text, the variables and the failure of one program; whoever fails
first fails every later expression and every reader with the first cause. It knows no
backend by name.

What needs no model is executed at once by the thread that adds it, as long as nothing
waits before it. The rest is left to a thread that ends when nothing is left to do, so
that there is nothing to close and nothing to lose.
"""

import threading
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial

from sglrun.backends.base import Backend
from sglrun.errors import ScopeError
from sglrun.interpreter.evaluator import Evaluator, Name
from sglrun.interpreter.failure import Failure
from sglrun.interpreter.observer import Observer
from sglrun.interpreter.task import Task
from sglrun.interpreter.text_stream import TextStreams
from sglrun.interpreter.workers import WORKERS
from sglrun.lang import ir
from sglrun.lang.prompt import Prompt
from sglrun.lang.sampling import SamplingParams


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a program is executed; its forks are executed the same way.

    Attributes:
        backend: the model side.
        sampling: the run's parameters, under those of each generation.
        stream: texts can be read while they grow.
        inline: generations run in the thread that adds them, those of forks excepted.
        inline_forks: those of forks too, one after the other.
        observer: told of everything before it is done; programs that are called
            inside are executed the same way then.
    """

    backend: Backend
    sampling: SamplingParams
    stream: bool = False
    inline: bool = False
    inline_forks: bool = False
    observer: Observer | None = None

    def new_streams(self) -> TextStreams | None:
        """Return streams for one executor, where the program is streamed."""
        return TextStreams() if self.stream else None


class StreamExecutor:
    """Executes expressions in order; safe from any thread."""

    def __init__(self, settings: Settings, prompt: Prompt) -> None:
        """Begin with *prompt*, no variables and nothing to do."""
        self._settings = settings
        self._inline = settings.inline
        self._evaluator = Evaluator(
            settings.backend, settings.sampling, prompt, settings.new_streams()
        )
        # All below is written under the condition only.
        self._changed = threading.Condition()
        self._tasks: list[Task] = []
        self._busy = False  # someone executes, or is about to
        self._failure: Failure | None = None
        self._role = prompt.role  # as the last piece added leaves it
        self._open_scopes: dict[str, Future[object]] = {}
        self._futures: dict[Name, Future[object]] = {}
        self._children: list[StreamExecutor] = []

    @property
    def failure(self) -> Failure | None:
        """The first failure; does not wait."""
        return self._failure

    @property
    def evaluator(self) -> Evaluator:
        """The prompt and variables; complete once nothing is waiting."""
        return self._evaluator

    @property
    def settings(self) -> Settings:
        """How it executes."""
        return self._settings

    @property
    def open_role(self) -> str | None:
        """The role that is open after all that was added."""
        return self._role

    @property
    def streams(self) -> TextStreams | None:
        """The texts as they grow, where the program is streamed."""
        return self._evaluator.streams

    def submit(self, expr: ir.Expr, where: str | None = None) -> None:
        """Add *expr*; returns at once unless generations run inline.

        Raises:
            ProgramError: a role or scope that does not fit here.
            BaseException: the first cause, if the program has failed; inline also if
                *expr* makes it fail.
        """
        pieces = ir.flatten(expr)
        with self._changed:
            self._raise_failure()
            self._role = ir.role_after(self._role, pieces)
            tasks = [self._task(piece, where) for piece in pieces]
            mine = self._enqueue(*tasks)
        asks = any(isinstance(piece, (ir.Gen, ir.Select)) for piece in pieces)
        if mine and (self._inline or not asks):
            self._drain()
        elif mine:
            self._start_thread(where)
        if self._inline:
            self._raise_failure()

    def _start_thread(self, where: str | None) -> None:
        try:
            WORKERS.run(self._drain)
        except RuntimeError as exc:  # the system has none left: nobody must wait
            self.fail(Failure(cause=exc, where=where))
            self._drain()
            raise

    def _task(self, piece: ir.Piece, where: str | None) -> Task:
        names = ir.defines(piece)
        return Task(
            execute=partial(self._execute, piece, where),
            results=self._declare(piece, names),
            variable=names[0] if names else None,
            where=where,
        )

    def _execute(self, piece: ir.Piece, where: str | None) -> tuple[object, ...]:
        if self._settings.observer is not None:
            piece = self._settings.observer.executing(self, piece, where)
        return self._evaluator.execute(piece)

    def _enqueue(self, *tasks: Task) -> bool:
        """Add *tasks*; return whether the caller is to see that they are executed."""
        self._tasks.extend(tasks)
        idle, self._busy = not self._busy, True
        return idle

    def _declare(
        self, piece: ir.Piece, names: tuple[Name, ...]
    ) -> tuple["Future[object]", ...]:
        if isinstance(piece, ir.VarScopeBegin):
            if piece.name in self._open_scopes:
                raise ScopeError(f"the var_scope {piece.name!r} is open already")
            opened: Future[object] = Future()
            self._open_scopes[piece.name] = self._futures[piece.name] = opened
            self._expect(piece.name)
            return ()
        if isinstance(piece, ir.VarScopeEnd):
            return (self._open_scopes.pop(piece.name),)
        results = []
        for name in names:
            results.append(Future[object]())
            self._futures[name] = results[-1]
            self._expect(name)
        return tuple(results)

    def _expect(self, name: Name) -> None:
        if self.streams is not None:
            self.streams.expect(name)

    def _drain(self) -> None:
        while True:
            with self._changed:
                if not self._tasks:
                    self._busy = False
                    self._changed.notify_all()
                    return
                tasks, self._tasks = self._tasks, []
            for task in tasks:
                self._do(task)

    def _do(self, task: Task) -> None:
        failure = self._failure
        if failure is not None:
            task.fail(failure.cause)
            return
        try:
            task.complete(task.execute())
        except BaseException as exc:  # noqa: BLE001 - handed to every reader
            self.fail(Failure(cause=exc, variable=task.variable, where=task.where))
            task.fail(self._failure.cause if self._failure else exc)

    def fail(self, failure: Failure) -> None:
        """End the program with *failure*, unless it has failed before."""
        with self._changed:
            known = self._failure
            if known is not None:
                if known.cause is failure.cause:  # it has passed the author's lines
                    self._failure = replace(known)
                return
            self._failure = failure
            # None of them is ended any more.
            scopes, self._open_scopes = tuple(self._open_scopes.values()), {}
        for scope in scopes:
            scope.set_exception(failure.cause)
        if self.streams is not None:
            self.streams.close(failure.cause)

    def finish(self) -> None:
        """Wait for all that was added, forks too, and end the streams. Never raises."""
        self.wait()
        with self._changed:
            children = tuple(self._children)
        for child in children:
            child.finish()
        if self.streams is not None:
            failure = self._failure
            self.streams.close(None if failure is None else failure.cause)

    def wait(self) -> None:
        """Wait until everything added is done or has failed. Never raises."""
        with self._changed:
            self._changed.wait_for(lambda: not self._busy)

    def sync(self) -> None:
        """Wait until everything added is done.

        Raises:
            BaseException: the first cause, if the program has failed.
        """
        self.wait()
        self._raise_failure()

    def read(self, name: Name) -> object:
        """Wait for the newest value of the variable *name*.

        Raises:
            KeyError: nothing was added that assigns it.
            ScopeError: the caller stands inside the scope that writes it.
            BaseException: the first cause, if it was not reached.
        """
        with self._changed:
            future = self._futures.get(name)
            if future is None:
                self._raise_failure()
                known = ", ".join(repr(key) for key in self._futures) or "none yet"
                raise KeyError(f"no variable {name!r} (variables: {known})")
            if name in self._open_scopes:
                future = _unreadable(name)
        cause = future.exception()  # waits
        if cause is None:
            return self.shown(future.result())
        failure = self._failure
        if failure is not None and cause is failure.cause:
            failure.throw()
        raise cause.with_traceback(None)  # made for a reader, and not the failure

    def shown(self, value: object) -> object:
        """Return *value* as the author is to see it."""
        observer = self._settings.observer
        return value if observer is None else observer.reading(value)

    def future(self, name: Name) -> Future[object]:
        """Return the newest value of *name*, which was added, as a future."""
        with self._changed:
            return self._futures[name]

    def has(self, name: Name) -> bool:
        """Return whether the newest value of *name* is there; does not wait."""
        with self._changed:
            future = self._futures.get(name)
        return future is not None and future.done() and future.exception() is None

    def write(self, name: Name, value: object) -> None:
        """Assign *value* after all that was added; it can be read at once.

        Raises:
            BaseException: the first cause, if the program has failed.
        """
        if self._settings.observer is not None:
            self._settings.observer.writing(self, name, value)
        done: Future[object] = Future()
        done.set_result(value)
        with self._changed:
            self._raise_failure()
            self._futures[name] = done
            self._expect(name)
            if not self._enqueue(Task(execute=partial(self._assign, name, value))):
                return
        self._drain()

    def _assign(self, name: Name, value: object) -> tuple[object, ...]:
        self._evaluator.assign(name, value)
        return ()

    def fork(self, number: int) -> tuple["StreamExecutor", ...]:
        """Return *number* executors that go on from here; waits for what was added.

        Raises:
            BaseException: the first cause, if the program has failed.
        """
        self.sync()
        with self._changed:
            before = len(self._children)
            children = tuple(self._child(before + each) for each in range(number))
            self._children.extend(children)
        if self._settings.observer is not None:
            self._settings.observer.forked(self, children)
        return children

    def joining(self, children: Iterable["StreamExecutor"], mode: str) -> None:
        """Take note that *children* are about to be brought back."""
        if self._settings.observer is not None:
            self._settings.observer.joining(self, children, mode)

    def _child(self, number: int) -> "StreamExecutor":
        child = StreamExecutor(self._settings, self._evaluator.prompt)
        child._inline = self._settings.inline_forks
        child._evaluator = self._evaluator.forked(number, self._settings.new_streams())
        child._futures = dict(self._futures)
        for name in self._open_scopes:
            child._futures[name] = _unreadable(name)
        return child

    def _raise_failure(self) -> None:
        if self._failure is not None:
            self._failure.throw()


def _unreadable(name: str) -> "Future[object]":
    future: Future[object] = Future()
    future.set_exception(ScopeError(f"{name!r} is read inside its own var_scope"))
    return future
