"""The decorator ``function``, and what an author does with what it makes."""

import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, fields
from typing import Any, Literal, overload

from sglrun.backends.base import Backend
from sglrun.errors import BackendError
from sglrun.interpreter.author_function import (
    check_author_function,
    without_partial,
)
from sglrun.interpreter.compiling.compiler import CompiledProgram, compile_program
from sglrun.interpreter.definitions import note_definition, note_run
from sglrun.interpreter.global_config import global_config, need_backend
from sglrun.interpreter.program import Program
from sglrun.interpreter.progress import shown
from sglrun.interpreter.run import run_program, run_program_batch, running_settings
from sglrun.interpreter.state import ProgramState
from sglrun.interpreter.tracing.inert import is_inert
from sglrun.interpreter.tracing.tracer import Trace, trace_program
from sglrun.lang.chat_template import DEFAULT_TEMPLATE
from sglrun.lang.sampling import SamplingParams

_WORTH_CACHING = 65  # characters: more than SGLang's 64
_SAMPLING = frozenset(field.name for field in fields(SamplingParams))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Function(Program):
    """A program that can be run, over one row or many."""

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
            backend: the model side; if it is not given, that of the program which
                calls this one, or the default backend.
            use_thread: let generations run beside the body.
            **kwargs: arguments and sampling parameters by name.

        Raises:
            ProgramError: arguments that do not fit, or no backend.
            Exception: what the author's code raised, unless *stream*; without
                *use_thread* also what a backend raised.
        """
        note_run(self)
        sampling = self._sampling(kwargs)
        state = run_program(
            self,
            self.arguments(args, kwargs),
            backend=_chosen(backend),
            sampling=sampling,
            inline=not use_thread,
            stream=stream,
        )
        failure = state.failure
        if failure is not None and not stream and (failure.in_body or not use_thread):
            raise failure.cause
        return state

    __call__ = run

    def run_batch(
        self,
        batch: Sequence[Mapping[str, object] | Sequence[object]],
        *,
        backend: Backend | None = None,
        num_threads: int | Literal["auto"] = "auto",
        progress_bar: bool = False,
        generator_style: bool = False,
        **sampling: Any,
    ) -> list[ProgramState] | Iterator[ProgramState]:
        """Run the program over *batch*; return the states in its order.

        The text that all runs begin with is sent once before them. A run that fails is
        a state whose ``error()`` tells why; the others go on.

        Args:
            batch: the arguments of each run, by name or by position.
            backend: the model side; the default backend if it is not given.
            num_threads: runs at the same time; ``"auto"`` is 96, or 16 for each core.
            progress_bar: show on stderr how many runs are done.
            generator_style: return an iterator that yields states as soon as those
                before them are there, instead of a list.
            **sampling: sampling parameters by name.

        Raises:
            ProgramError: no backend.
            TypeError: *batch* is no sequence, or there is no such parameter.
            ValueError: a parameter is outside of what it allows.
        """
        note_run(self)
        if not isinstance(batch, list | tuple):
            raise TypeError(
                f"a batch is a list of arguments, not {type(batch).__name__}"
            )
        states = self._batch(
            batch,
            _chosen(backend),
            SamplingParams.of(**sampling),
            None if num_threads == "auto" else num_threads,
        )
        if progress_bar:
            states = shown(states, name=self.name, total=len(batch))
        return states if generator_style else list(states)

    def _batch(
        self,
        batch: Sequence[Mapping[str, object] | Sequence[object]],
        backend: Backend,
        sampling: SamplingParams,
        num_threads: int | None,
    ) -> Iterator[ProgramState]:
        rows = run_program_batch(
            self,
            backend,
            batch,
            sampling=sampling,
            num_threads=num_threads,
            ordered=True,
        )

        def states() -> Iterator[ProgramState]:
            with closing(rows):
                if len(batch) > 1 and global_config.enable_precache_with_tracing:
                    self.cache(backend)
                for _, state in rows:
                    yield state

        return states()

    def cache(self, backend: Backend | None = None) -> None:
        """Have the backend read the text that all runs begin with; waits.

        Nothing is sent where that text is short: reading it again costs no more.
        Tracing calls the author's function once with placeholders. A backend that
        refuses is named in a warning.
        """
        backend = _chosen(backend)
        traced = trace_program(
            self, template=backend.chat_template, whole=is_inert(self)
        )
        prefix = traced.prefix.prompt
        if len(prefix.text) < _WORTH_CACHING or not backend.capabilities.prefix_cache:
            return
        try:
            backend.cache_prefix(prefix, only_scored=traced.only_selects)
        except BackendError as exc:
            warnings.warn(f"the shared prefix is not cached: {exc}", stacklevel=2)

    def trace(self, *, backend: Backend | None = None, **arguments: object) -> Trace:
        """Run the program once with stand-ins for all that a model would say.

        No model is asked, and whatever the author's code raises ends the trace only.

        Args:
            backend: whose chat template roles are written in; the default backend's if
                there is one.
            **arguments: those that are known; the others are stood in for.
        """
        asked = backend or global_config.default_backend
        template = DEFAULT_TEMPLATE if asked is None else asked.chat_template
        return trace_program(self.bind(**arguments), template=template)

    def compile(self, *, backend: Backend | None = None) -> CompiledProgram:
        """Return the program as a plan: data that runs with the same results.

        The author's code runs once, now; its side effects happen then.

        Args:
            backend: whose chat template roles are written in, where a program reads
                its own text.

        Raises:
            ProgramError: what is done depends on an argument or a generated value; the
                message names the line.
        """
        asked = backend or global_config.default_backend
        template = DEFAULT_TEMPLATE if asked is None else asked.chat_template
        return compile_program(self, template=template)

    def _sampling(self, kwargs: dict[str, Any]) -> SamplingParams:
        """Take the sampling parameters out of *kwargs*."""
        names = [
            name for name in kwargs if name in _SAMPLING and name not in self.parameters
        ]
        return SamplingParams.of(**{name: kwargs.pop(name) for name in names})


def _chosen(given: Backend | None) -> Backend:
    around = running_settings.get()
    if around is not None and (given is None or around.observer is not None):
        return around.backend  # what is observed asks no other model
    return global_config.require_backend() if given is None else need_backend(given)


@overload
def function(
    func: Callable[..., object], num_api_spec_tokens: int | None = None
) -> Any: ...


@overload
def function(
    func: None = None, num_api_spec_tokens: int | None = None
) -> Callable[[Callable[..., object]], Any]: ...


def function(
    func: Callable[..., object] | None = None, num_api_spec_tokens: int | None = None
) -> Any:
    """Make a function whose first parameter is the state into a program.

    Use it bare or with parentheses.

    A ``functools.partial`` is the program of its function with arguments bound, and an
    object with ``__call__`` is called.

    Raises:
        ProgramError: it is no function; or it takes no state, is ``async``, a
            generator or a method, or has a parameter that cannot be given by name.
    """
    if func is None:
        return lambda given: function(given, num_api_spec_tokens)
    plain, bound = without_partial(func)
    name = check_author_function(plain)
    kinds = inspect.Parameter
    named = (kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY)
    _, *rest = inspect.signature(plain).parameters.values()
    taken = [parameter for parameter in rest if parameter.kind in named]
    program = Function(
        func=plain,
        name=name,
        parameters=tuple(parameter.name for parameter in taken),
        required=tuple(p.name for p in taken if p.default is kinds.empty),
        by_name=tuple(p.name for p in taken if p.kind is kinds.KEYWORD_ONLY),
        takes_any=any(parameter.kind is kinds.VAR_KEYWORD for parameter in rest),
        num_api_spec_tokens=num_api_spec_tokens,
    ).bind(**bound)
    note_definition(program)
    return program
