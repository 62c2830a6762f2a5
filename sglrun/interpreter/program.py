"""A program: a Python function in the language, and running it once."""

import inspect
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import CodeType, MappingProxyType
from typing import Any

from sglrun.backends.base import Backend
from sglrun.errors import ProgramError
from sglrun.interpreter.executor import Settings, StreamExecutor
from sglrun.interpreter.failure import Failure, raising_place
from sglrun.interpreter.global_config import global_config
from sglrun.interpreter.state import ProgramState
from sglrun.lang.prompt import Prompt
from sglrun.lang.sampling import SamplingParams

_NOTHING: Mapping[str, object] = MappingProxyType({})
_SAMPLING = frozenset(field.name for field in fields(SamplingParams))


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A function whose first parameter is the state; made by ``function``.

    Attributes:
        func: the author's function.
        name: its name.
        parameters: what it takes besides the state, in order.
        required: those of them without a default.
        takes_any: it has ``**kwargs``.
        bound: arguments fixed by ``bind``.
        num_api_spec_tokens: the budget of speculation for API models.
    """

    func: Callable[..., object]
    name: str
    parameters: tuple[str, ...]
    required: tuple[str, ...]
    takes_any: bool = False
    bound: Mapping[str, object] = field(default_factory=lambda: _NOTHING)
    num_api_spec_tokens: int | None = None

    @property
    def path(self) -> Path:
        """The file that the function stands in."""
        return Path(_code(self.func).co_filename)

    @property
    def line(self) -> int:
        """The line that the function begins at."""
        return _code(self.func).co_firstlineno

    @property
    def free(self) -> tuple[str, ...]:
        """The parameters that are not bound."""
        return tuple(name for name in self.parameters if name not in self.bound)

    def takes(self, name: str) -> bool:
        """Return whether *name* can be given as an argument."""
        return self.takes_any or name in self.free

    def check_arguments(self, names: Iterable[str]) -> None:
        """Check that *names* are enough to run the program.

        Raises:
            ProgramError: an argument is missing, or one is bound already.
        """
        given = set(names)
        missing = [
            name for name in self.required if name not in given | set(self.bound)
        ]
        if missing:
            raise ProgramError(
                f"missing argument{'s' * (len(missing) > 1)} "
                f"{', '.join(missing)} (the program {self.name!r} takes "
                f"{', '.join(self.free)})"
            )
        twice = sorted(given & set(self.bound))
        if twice:
            raise ProgramError(f"{', '.join(twice)} is bound already and given again")

    def bind(self, **arguments: object) -> "Program":
        """Return this program with *arguments* fixed.

        Raises:
            ProgramError: the function has no such parameter.
        """
        for name in arguments:
            if not self.takes_any and name not in self.parameters:
                raise ProgramError(
                    f"cannot bind {name!r}: the program {self.name!r} takes "
                    f"{', '.join(self.parameters)}"
                )
        return replace(self, bound=MappingProxyType({**self.bound, **arguments}))

    def arguments(
        self, args: tuple[object, ...], kwargs: Mapping[str, object]
    ) -> dict[str, object]:
        """Return positional and named arguments by name; positions skip bound ones.

        Raises:
            ProgramError: too many, one twice, or one is missing.
        """
        if len(args) > len(self.free):
            raise ProgramError(
                f"{len(args)} arguments for the {len(self.free)} of {self.name!r} "
                f"({', '.join(self.free)})"
            )
        given = dict(zip(self.free, args, strict=False))
        twice = sorted(given.keys() & kwargs.keys())
        if twice:
            raise ProgramError(f"{', '.join(twice)} is given twice")
        given |= kwargs
        self.check_arguments(given)
        return given

    def run(
        self,
        *args: object,
        stream: bool = False,
        backend: Backend | None = None,
        use_thread: bool = True,
        **kwargs: Any,
    ) -> ProgramState:
        """Run the program once; return its state as soon as its body has ended.

        A keyword that the program takes is its argument; another one that names a
        sampling parameter (``max_new_tokens=9``) is that.

        Args:
            *args: the program's arguments.
            stream: run the body in a thread, so that texts can be read as they grow.
            backend: the model side; the default backend if it is not given.
            use_thread: let generations run beside the body.
            **kwargs: arguments and sampling parameters by name.

        Raises:
            ProgramError: arguments that do not fit, or no backend.
            Exception: what the author's code raised, unless *stream*; without
                *use_thread* also what a backend raised.
        """
        sampling = SamplingParams.of(
            **{name: kwargs.pop(name) for name in self._options(kwargs)}
        )
        state = run_program(
            self,
            self.arguments(args, kwargs),
            backend=backend or global_config.require_backend(),
            sampling=sampling,
            inline=not use_thread,
            stream=stream,
        )
        failure = state.failure
        if failure is not None and not stream and (failure.in_body or not use_thread):
            raise failure.cause
        return state

    __call__ = run

    def _options(self, kwargs: Mapping[str, object]) -> list[str]:
        return [
            name for name in kwargs if name in _SAMPLING and name not in self.parameters
        ]


def _code(func: Callable[..., object]) -> CodeType:
    code: CodeType = inspect.unwrap(func).__code__
    return code


def function(
    func: Callable[..., object] | None = None, num_api_spec_tokens: int | None = None
) -> Any:
    """Make a function whose first parameter is the state into a program.

    Use it bare or with parentheses.

    Raises:
        ProgramError: the function takes no state, or is ``async``.
    """
    if func is None:
        return lambda given: function(given, num_api_spec_tokens)
    if inspect.iscoroutinefunction(func):
        raise ProgramError(
            f"the program {func.__name__!r} is async; write it as a plain function, "
            "expressions run beside it anyway"
        )
    kinds = inspect.Parameter
    named = (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY)
    _, *rest = inspect.signature(func).parameters.values() or (None,)
    if not inspect.signature(func).parameters:
        raise ProgramError(
            f"the program {func.__name__!r} must take the state as its first "
            f"parameter: def {func.__name__}(s, ...)"
        )
    taken = [parameter for parameter in rest if parameter.kind in named]
    return Program(
        func=func,
        name=func.__name__,
        parameters=tuple(parameter.name for parameter in taken),
        required=tuple(p.name for p in taken if p.default is kinds.empty),
        takes_any=any(parameter.kind is kinds.VAR_KEYWORD for parameter in rest),
        num_api_spec_tokens=num_api_spec_tokens,
    )


def run_program(
    program: Program,
    arguments: Mapping[str, object],
    *,
    backend: Backend,
    sampling: SamplingParams | None = None,
    inline: bool = False,
    stream: bool = False,
) -> ProgramState:
    """Run *program* once; what fails is in the state's ``failure``, nothing is raised.

    Args:
        program: what to run.
        arguments: its arguments by name, besides the bound ones.
        backend: the model side.
        sampling: the run's parameters.
        inline: generations run in this thread, and the program has ended on return;
            else they run beside it and may go on after the return.
        stream: the body runs in a thread and the state is returned at once.
    """
    settings = Settings(
        backend=backend,
        sampling=sampling or SamplingParams(),
        inline=inline,
        stream=stream,
    )
    prompt = Prompt(template=backend.chat_template)
    state = ProgramState(StreamExecutor(settings, prompt))
    if not stream:
        run_body(program, state, arguments)
        if inline:
            state.stream_executor.finish()
        return state

    def body() -> None:
        run_body(program, state, arguments)
        state.stream_executor.finish()

    threading.Thread(target=body, name="sglrun-body", daemon=True).start()
    return state


def run_body(
    program: Program, state: ProgramState, arguments: Mapping[str, object]
) -> None:
    """Call the author's function; what it raises becomes the state's failure."""
    try:
        state.ret_value = program.func(state, **{**arguments, **program.bound})
    except (Exception, SystemExit) as exc:  # noqa: BLE001 - a row's failure is a result
        where = raising_place(exc, str(program.path))
        state.stream_executor.fail(Failure(cause=exc, where=where, in_body=True))
