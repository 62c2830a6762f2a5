"""Running a program: once, and over many arguments at the same time."""

import contextvars
import threading
import warnings
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import closing
from contextvars import ContextVar
from operator import index
from typing import SupportsIndex

from sglrun.backends.base import Backend
from sglrun.errors import ProgramError
from sglrun.interpreter.executor import Settings, StreamExecutor
from sglrun.interpreter.failure import Failure, raising_place
from sglrun.interpreter.fan_out import FanOut, auto_num_threads
from sglrun.interpreter.program import Program
from sglrun.interpreter.row_backend import RowBackend
from sglrun.interpreter.running_state import RunningState
from sglrun.interpreter.speculation import speculating
from sglrun.interpreter.state import ProgramState
from sglrun.lang.prompt import Prompt
from sglrun.lang.sampling import SamplingParams

Arguments = Mapping[str, object] | Sequence[object]
"""The arguments of one run: by name, or by position."""

running_settings: ContextVar[Settings | None] = ContextVar(
    "running_settings", default=None
)
"""How the program is executed whose body runs here; what it calls is run with the same
backend, and just the same where the program is observed."""


def run_program(
    program: Program,
    arguments: Arguments,
    *,
    backend: Backend,
    sampling: SamplingParams | None = None,
    inline: bool = False,
    stream: bool = False,
) -> ProgramState:
    """Run *program* once; what fails is in the state's ``failure``, nothing is raised.

    Args:
        program: what to run.
        arguments: its arguments, besides the bound ones.
        backend: the model side.
        sampling: the run's parameters; a program that is called by another one has
            those of that one under them.
        inline: generations run in this thread, and the program has ended on return;
            else they run beside it and may go on after the return.
        stream: the body runs in a thread and the state is returned at once; what
            waits in that state, waits for the body too.
    """
    around = running_settings.get()
    if program.num_api_spec_tokens:
        backend = speculating(backend, program.num_api_spec_tokens)
    own = sampling or SamplingParams()
    settings = Settings(
        backend=backend,
        sampling=own if around is None else own.over(around.sampling),
        inline=inline,
        stream=stream,
    )
    if around is not None and around.observer is not None:
        settings, inline, stream = around, True, False
    prompt = Prompt(template=backend.chat_template)
    executor = StreamExecutor(settings, prompt)
    state = ProgramState(executor)
    if not stream:
        run_body(program, state, arguments)
        if inline:
            executor.finish()
        return state
    running = RunningState(executor)

    def body() -> None:
        try:
            run_body(program, state, arguments)
        finally:
            running.end(state.ret_value)
            executor.finish()

    context = contextvars.copy_context()
    threading.Thread(
        target=context.run, args=(body,), name="sglrun-body", daemon=True
    ).start()
    return running


def run_body(program: Program, state: ProgramState, arguments: Arguments) -> None:
    """Call the author's function; what it raises becomes the state's failure.

    Warns:
        UserWarning: the function leaves a role open.

    Raises:
        KeyboardInterrupt: the user's, after the state has failed with it; it comes
            to the main thread only, and elsewhere is what the author raised.
    """
    executor = state.stream_executor
    token = running_settings.set(executor.settings)
    observer = executor.settings.observer
    try:
        func = program.func
        if observer is not None:
            observer.began(executor, program.name)
            func = observer.following(func)
        given = _by_name(program, arguments)
        state.ret_value = func(state, **{**given, **program.bound})
        if executor.open_role is not None and executor.failure is None:
            warnings.warn(
                f"the program {program.name!r} ends inside {executor.open_role!r}; "
                "the turn is among its messages as far as it goes",
                stacklevel=2,
            )
    except BaseException as exc:  # a row's failure is a result
        where = raising_place(exc, str(program.path))
        executor.fail(Failure(cause=exc, where=where, in_body=True))
        in_main = threading.current_thread() is threading.main_thread()
        if in_main and isinstance(exc, KeyboardInterrupt):
            raise
    finally:
        running_settings.reset(token)
        if observer is not None:
            observer.left(executor)


def _by_name(program: Program, arguments: Arguments) -> dict[str, object]:
    if isinstance(arguments, Mapping):
        return program.arguments((), arguments)
    if isinstance(arguments, str | bytes) or not isinstance(arguments, Sequence):
        raise ProgramError(
            f"the arguments of {program.name!r} are a mapping or a list, "
            f"not {arguments!r}"
        )
    return program.arguments(tuple(arguments), {})


def run_program_batch(
    program: Program,
    backend: Backend,
    rows: Iterable[Arguments],
    *,
    sampling: SamplingParams | None = None,
    num_threads: int | None = None,
    ordered: bool = False,
) -> Generator[tuple[int, ProgramState], None, None]:
    """Run *program* over *rows*, yielding each row's number and finished state.

    Rows are taken lazily; at most a window of them is held, and one slow row idles
    nobody. A row that fails is a state with a ``failure``. Closing the generator takes
    no more rows, lets those that run ask nothing more, and waits for them.

    Args:
        program: what to run.
        backend: the model side.
        rows: the arguments of each run.
        sampling: the run's parameters.
        num_threads: rows run at the same time; ``auto_num_threads()`` if not given.
        ordered: yield in the order of the rows, not as they finish.

    Raises:
        ValueError: *num_threads* is no number, or less than 1.
    """

    def work(
        numbered: tuple[int, Arguments],
    ) -> tuple[int, ProgramState, RowBackend]:
        number, arguments = numbered
        asked = RowBackend(backend, lambda: fan_out.is_left)
        state = run_program(
            program, arguments, backend=asked, sampling=sampling, inline=True
        )
        return number, state, asked

    fan_out = FanOut(
        work,
        enumerate(rows),
        num_threads=_num_threads(num_threads),
        ordered=ordered,
    )
    return _given(iter(fan_out))


def _num_threads(wanted: object) -> int:
    if wanted is None:
        return auto_num_threads()
    if not isinstance(wanted, SupportsIndex) or index(wanted) < 1:
        raise ValueError(
            f"num_threads is a whole number of at least 1, or 'auto', not {wanted!r}"
        )
    return index(wanted)


def _given(
    rows: Generator[tuple[int, ProgramState, RowBackend], None, None],
) -> Generator[tuple[int, ProgramState], None, None]:
    with closing(rows):
        for number, state, asked in rows:
            asked.give()
            yield number, state
