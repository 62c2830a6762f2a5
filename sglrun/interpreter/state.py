"""The program state: the ``s`` that an author sees, and groups of its forks."""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self

from sglrun.errors import ForkError
from sglrun.interpreter.concatenation import concatenate
from sglrun.interpreter.evaluator import Name
from sglrun.interpreter.executor import StreamExecutor
from sglrun.interpreter.failure import Failure, calling_place
from sglrun.interpreter.text_stream import GeneratedText, TextStream, in_thread
from sglrun.lang import ir


class ProgramState:
    """What a program has said and heard so far.

    ``s += expr`` adds an expression and returns at once; ``s["x"]`` waits for the
    variable. After a failure both raise its first cause.

    Attributes:
        stream_executor: what executes the expressions.
        ret_value: what the program returned, once it has.
    """

    def __init__(self, executor: StreamExecutor) -> None:
        """Wrap *executor*."""
        self.stream_executor = executor
        self.ret_value: object = None

    def __iadd__(self, other: object) -> Self:
        """Add a string or an expression.

        Raises:
            ValueError: *other* is ``None``.
            TypeError: it is neither.
            ProgramError: a role that does not fit here.
        """
        self.stream_executor.submit(ir.as_expr(other), calling_place())
        return self

    def __getitem__(self, name: Name) -> Any:
        """Wait for the variable *name* and return it.

        Raises:
            KeyError: nothing was added that assigns it.
            BackendError: what made it fail, or whatever failed first.
        """
        return self.stream_executor.read(name)

    def __setitem__(self, name: Name, value: object) -> None:
        """Assign *value* to the variable *name*; it can be read at once."""
        self.stream_executor.write(name, value)

    def __contains__(self, name: Name) -> bool:
        """Return whether the variable *name* has a value now; does not wait."""
        return self.stream_executor.has(name)

    def __repr__(self) -> str:
        """Return the text, once it is complete."""
        self.stream_executor.wait()
        return f"ProgramState({self.stream_executor.evaluator.prompt.text})"

    get_var = __getitem__
    set_var = __setitem__

    @property
    def failure(self) -> Failure | None:
        """The first failure so far; does not wait."""
        return self.stream_executor.failure

    def error(self) -> BaseException | None:
        """Wait until everything added is done; return the first cause of a failure."""
        self.stream_executor.wait()
        failure = self.stream_executor.failure
        return None if failure is None else failure.cause

    def sync(self) -> None:
        """Wait until everything added is done; raise the first cause of a failure."""
        self.stream_executor.sync()

    def text(self) -> str:
        """Wait, then return the whole text, with the markup of its chat template."""
        self.stream_executor.sync()
        said = self.stream_executor.evaluator.prompt.text
        return self.stream_executor.shown(said)  # type: ignore[return-value]

    def messages(self) -> list[dict[str, object]]:
        """Wait, then return the turns in OpenAI's shape, an open one last."""
        self.stream_executor.sync()
        prompt = self.stream_executor.evaluator.prompt
        opened = prompt.open_message
        turns = prompt.messages if opened is None else (*prompt.messages, opened)
        return [message.as_openai() for message in turns]

    def get_meta_info(self, name: Name) -> Any:
        """Wait for the variable *name*; return what the backend told about it."""
        self.stream_executor.read(name)
        return self.stream_executor.evaluator.meta_info.get(name)

    def variables(self) -> Mapping[Name, object]:
        """Wait, then return the variables that have values, in order of assignment.

        After a failure they are those from before it; nothing is raised.
        """
        self.stream_executor.wait()
        return dict(self.stream_executor.evaluator.values)

    def finish_reasons(self) -> Mapping[Name, str]:
        """Wait, then return why each finished generation ended; nothing is raised."""
        self.stream_executor.wait()
        return dict(self.stream_executor.evaluator.finish_reasons)

    def system(self, expr: object = None) -> Any:
        """Add a system turn with *expr*, or open one with ``with s.system():``."""
        return self._turn("system", expr)

    def user(self, expr: object = None) -> Any:
        """Add a user turn with *expr*, or open one with ``with s.user():``."""
        return self._turn("user", expr)

    def assistant(self, expr: object = None) -> Any:
        """Add an assistant turn with *expr*, or open one with ``with``."""
        return self._turn("assistant", expr)

    def _turn(self, role: str, expr: object) -> Any:
        if expr is None:
            return self._between(ir.RoleBegin(role), ir.RoleEnd(role))
        inner = ir.flatten(ir.as_expr(expr))
        self += ir.ExprList((ir.RoleBegin(role), *inner, ir.RoleEnd(role)))
        # It is added already: ``s += s.user("x")`` must not add it twice.
        return ir.ExprList()

    def var_scope(self, name: str) -> Any:
        """Store the text added inside ``with s.var_scope(name):`` as a variable."""
        return self._between(ir.VarScopeBegin(name), ir.VarScopeEnd(name))

    @contextmanager
    def _between(self, begin: ir.Piece, end: ir.Piece) -> Iterator[None]:
        self += begin
        try:
            yield
        finally:
            if self.failure is None:
                self += end

    def fork(
        self, size: int = 1, position_ids_offset: object = None
    ) -> "ProgramStateGroup":
        """Return *size* states that go on from here, each on its own; waits.

        Args:
            size: the number of branches.
            position_ids_offset: accepted as in the reference, and without effect.
        """
        del position_ids_offset
        children = self.stream_executor.fork(int(size))
        return ProgramStateGroup([ProgramState(child) for child in children], self)

    @contextmanager
    def copy(self, position_ids_offset: object = None) -> Iterator["ProgramState"]:
        """Fork one state for a block; its new variables come back as plain values."""
        group = self.fork(1, position_ids_offset)
        yield group[0]
        group.join()
        for name in group[0].stream_executor.evaluator.assigned:
            self[name] = group[0][name]

    def text_iter(self, var_name: Name = None) -> Iterator[str]:
        """Iterate over the text, or one variable's, as it is generated.

        Every iteration begins at the beginning. Without ``stream=True`` it is one
        piece, once it is there.

        Raises:
            KeyError: the program ended without the variable.
            BackendError: the first cause of a failure, after the text before it.
        """
        stream = self._stream(var_name)
        if stream is None:
            yield self.text() if var_name is None else str(self[var_name])
        else:
            yield from stream

    def text_pieces(self) -> Iterator[str]:
        """Iterate over the text as it comes; a model's pieces are ``GeneratedText``.

        Raises:
            BackendError: the first cause of a failure, after the text before it.
        """
        stream = self._stream(None)
        if stream is None:
            yield self.text()
        else:
            yield from stream.pieces()

    async def text_async_iter(
        self, var_name: Name = None, *, return_meta_data: bool = False
    ) -> AsyncIterator[Any]:
        """Iterate as ``text_iter`` does, without holding the event loop.

        With *return_meta_data* each item is a pair of text and meta info: what the
        backend told with this text, where it tells anything before the end; else the
        last pair has what it told at the end.
        """
        stream = self._stream(var_name)
        if stream is None:
            whole = self.text if var_name is None else lambda: str(self[var_name])
            text = await in_thread(whole)
            yield (text, self._meta_info(var_name)) if return_meta_data else text
            return
        if not return_meta_data:
            async for text in stream.iterate():
                yield text
            return
        told: object = None
        has_own = False
        async for piece in stream.iterate_pieces():
            own = piece.meta_info if isinstance(piece, GeneratedText) else None
            has_own = has_own or own is not None
            told = self._meta_info(var_name) if own is None else own
            yield piece, told
        final = self._meta_info(var_name)
        if not has_own and told != final:
            yield "", final

    def _meta_info(self, name: Name) -> object:
        return self.stream_executor.evaluator.meta_info.get(name) or {}

    def _stream(self, name: Name) -> TextStream | None:
        streams = self.stream_executor.streams
        if streams is None:
            return None
        return streams.whole if name is None else streams.of(name)


class ProgramStateGroup:
    """The branches of a fork, in order; each goes on at the same time."""

    def __init__(self, states: list[ProgramState], parent: ProgramState) -> None:
        """Hold *states*, forked from *parent*."""
        self.states = states
        self._parent = parent

    def __len__(self) -> int:
        """Return the number of branches."""
        return len(self.states)

    def __getitem__(self, index: int) -> ProgramState:
        """Return the branch at *index*."""
        return self.states[index]

    def __setitem__(self, index: int, state: ProgramState) -> None:
        """Accept ``group[i] += expr``; a branch cannot be replaced.

        Raises:
            TypeError: *state* is not the branch at *index*.
        """
        if self.states[index] is not state:
            raise TypeError("a branch of a fork cannot be replaced")

    def __iter__(self) -> Iterator[ProgramState]:
        """Iterate over the branches."""
        return iter(self.states)

    def __iadd__(self, other: object) -> Self:
        """Add to every branch: an expression, one for each, or a function of the index.

        Raises:
            ForkError: a branch has failed; its cause is the ``__cause__``.
            ValueError: not as many expressions as branches.
        """
        if callable(other):
            each = [other(index) for index in range(len(self))]
        elif isinstance(other, list | tuple):
            each = list(other)
        else:
            each = [other] * len(self)
        if len(each) != len(self):
            raise ValueError(f"{len(each)} expressions for {len(self)} branches")
        for state, expr in zip(self.states, each, strict=True):
            self._add(state, expr)
        return self

    def _add(self, state: ProgramState, expr: object) -> None:
        try:
            state += expr
        except BaseException:
            self._raise_failure()
            raise

    def join(self, mode: str = "gather_variable") -> None:
        """Wait for the branches and bring them back into the state they came from.

        Args:
            mode: ``gather_variable`` gives each variable that a branch assigned as the
                list of its values, by branch; ``concate_and_append`` says what the
                branches said, in order: text, turns and images.

        Raises:
            ValueError: another mode.
            ForkError: a branch failed; its cause is the ``__cause__``.
            ProgramError: what the branches said does not fit one after the other, as
                where each ends the same turn.
        """
        if mode not in ("gather_variable", "concate_and_append"):
            raise ValueError(
                f"unknown join mode {mode!r} (gather_variable or concate_and_append)"
            )
        for state in self.states:
            state.stream_executor.wait()
        self._parent.stream_executor.joining(
            [state.stream_executor for state in self.states], mode
        )
        if mode == "gather_variable":
            self._gather()
        self._raise_failure()
        if mode == "concate_and_append":
            concatenate(
                self._parent.stream_executor,
                [state.stream_executor for state in self.states],
            )

    def _gather(self) -> None:
        each = [state.stream_executor.evaluator for state in self.states]
        names = dict.fromkeys(name for branch in each for name in branch.assigned)
        for name in names:
            self._parent[name] = [
                branch.values[name] if name in branch.assigned else None
                for branch in each
            ]

    def _raise_failure(self) -> None:
        for index, state in enumerate(self.states):
            failure = state.failure
            if failure is None:
                continue
            error = ForkError(
                f"branch {index} of a fork of {len(self)} failed: {failure.cause}",
                index=index,
            )
            error.__cause__ = failure.cause
            self._parent.stream_executor.fail(
                Failure(cause=error, variable=failure.variable, where=failure.where)
            )
            raise error
