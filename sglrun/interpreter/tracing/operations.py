"""Operations: what rewritten code does to values that may not be known.

An operation on known values is done. One on an unknown value gives another unknown
value, is asked of whoever traces, or, where code of others would do it, is not done at
all: no library, file or network ever sees what stands for a row's value, and what it
would give is unknown. So what a trace says is constant is said for every row.
"""

import contextlib
import random
import sys
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from types import FrameType, FunctionType, MethodDescriptorType, MethodType
from typing import Any

from sglrun.interpreter.program import Program
from sglrun.interpreter.state import ProgramState
from sglrun.interpreter.tracing import formats
from sglrun.interpreter.tracing.authors_code import AuthorsCode
from sglrun.interpreter.tracing.calls import (
    is_authors,
    is_higher_order,
    is_language,
    is_native,
    is_varying,
    words_of,
)
from sglrun.interpreter.tracing.helpers import UNDECIDED, Helpers
from sglrun.interpreter.tracing.marks import has_mark
from sglrun.interpreter.tracing.placeholder import Oracle, Placeholder
from sglrun.interpreter.tracing.questions import OWN
from sglrun.interpreter.tracing.reach import reached_lines
from sglrun.interpreter.tracing.unknown import first_unknown, is_open
from sglrun.interpreter.tracing.value import Value, composed
from sglrun.lang import ir
from sglrun.lang.pictures import image, video
from sglrun.lang.prompt import ImageData

_CONTAINERS = (list, tuple, dict, set, frozenset, deque, str, Placeholder)
_CACHED = type(is_authors)  # what functools.lru_cache makes


_CONVERSIONS: Mapping[str, Callable[[Any], str]] = {"s": str, "r": repr, "a": ascii}
_TOLD = frozenset({"error", "finish_reasons"})
# Functions that ``contextlib.contextmanager`` makes have this code.
_MANAGED = contextlib.contextmanager(lambda: iter(())).__code__


class Operations:
    """What the rewritten code of one trace does; in its thread.

    Attributes:
        code: the author's code.
        helpers: the functions of it that are running.
    """

    def __init__(self, oracle: Oracle, program: Program) -> None:
        """Let *oracle* answer for the values in *program*."""
        self.helpers = Helpers()
        self._oracle = oracle
        self._program = program
        self.code = AuthorsCode(self, str(program.path))
        self._reached: frozenset[tuple[str, int]] | None = None
        self._seeded: list[random.Random] = []  # by the program, each time it runs

    def watch(self, frame: FrameType, event: str, arg: object) -> None:
        """Ask where the author's code is called that is not rewritten; a profiler.

        Python calls it by itself, as ``__str__`` or by a library.
        """
        del arg
        code = frame.f_code
        if event != "call" or not self.code.is_missed(code):
            return
        value = first_unknown(tuple(frame.f_locals.values()))
        if value is not None:
            self._oracle.ask(f"what {code.co_qualname}() does with", value)

    def go_on(self) -> bool:
        """Return ``True``, unless the trace has ended meanwhile."""
        self._oracle.go_on()
        return True

    def call(self, func: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call *func*."""
        if type(func) is Placeholder:
            return func(*args, **kwargs)
        if type(func) is MethodType:
            func, args = func.__func__, (func.__self__, *args)
        if type(func) is partial:
            args, kwargs = (*func.args, *args), {**func.keywords, **kwargs}
            return self.call(func.func, *args, **kwargs)
        own = func if type(func) is FunctionType else _called_by(func)
        do: Callable[..., Any]
        if is_language(func):
            do = self._call_language
        elif isinstance(func, type):
            do = self._make
        elif own is not None:
            args = args if own is func else (func, *args)
            func, do = own, self._call_function
        else:
            do = self._call_others
        return do(func, args, kwargs)

    def _call_function(
        self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        own: Any = self.code.followed(func)
        if own is not func or self.code.is_followed(func):
            is_plain = self.code.is_plain(func)
            return self._call_followed(own, args, kwargs, is_plain=is_plain)
        if func.__code__ is _MANAGED:
            inside: Any = self.code.followed(func.__wrapped__)
            return contextlib.contextmanager(inside)(*args, **kwargs)
        return self._call_others(func, args, kwargs)

    def text(self, *parts: str) -> str:
        """Return *parts* as one text."""
        unknown = next((part for part in parts if type(part) is Placeholder), None)
        if unknown is None:
            return "".join(parts)
        return unknown if len(parts) == 1 else unknown.joined(parts)

    def formatted(self, value: Any, conversion: str | None, spec: str = "") -> str:
        """Return *value* as a part of a text."""
        if conversion is not None:
            value = self.spelled(_CONVERSIONS[conversion], value)
        if type(spec) is Placeholder and type(value) is not Placeholder:
            return spec.unknown_step("a format by")
        made: str = self.read(format(value, spec))
        return made

    def percent(self, one: Any, other: Any) -> Any:
        """Return ``one % other``."""
        if type(one) is str and self.first((other,)) is not None:
            return formats.percent(self, one, other)
        return one % other

    def contains(self, item: Any, container: Any) -> bool:
        """Return whether *item* is in *container*."""
        if type(item) is not Placeholder:
            return item in container
        if type(container) is str:
            return item.ask("a search by", usual=False)
        own = getattr(type(container), "__contains__", None)
        if type(own) is FunctionType and not is_language(own):
            return bool(self.call(own, container, item))
        if not isinstance(container, _CONTAINERS):
            return item.ask("a search by", usual=False)
        return item in container

    def identical(self, one: Any, other: Any) -> bool:
        """Return whether *one* is *other*."""
        for this, that in ((one, other), (other, one)):
            if type(this) is Placeholder:
                if this.value.is_text and type(that) not in (str, Placeholder):
                    return False
                return this.ask("the identity of", usual=False)
        return one is other

    def changing(self, name: str, lines: tuple[int, ...], value: Any) -> Any:
        """Return the *value* of a global, if the program calls none who changes it.

        Args:
            name: its name.
            lines: the first lines of the functions that change it.
            value: what it is now.
        """
        if self._reached is None:
            self._reached = reached_lines(self._program)
        file = sys._getframe(1).f_code.co_filename  # noqa: SLF001 - documented for this
        if not any((file, line) in self._reached for line in lines):
            return value
        unknown = Value(source="global", name=name, exact=False)
        return Placeholder(unknown, self._oracle)

    def seen(self, value: Any) -> Any:
        """Return *value*, of which something is asked that cannot be followed."""
        if type(value) is Placeholder:
            value.ask("a match of", usual=True)
        return value

    def read(self, given: Any) -> Any:
        """Return *given* with placeholders for the texts with marks in it."""
        if type(given) is str and has_mark(given):
            fragments = self._oracle.marks.fragments(given)
            return Placeholder(composed(fragments), self._oracle)
        if type(given) in (list, tuple):
            return type(given)(map(self.read, given))
        if type(given) is dict:
            return {key: self.read(item) for key, item in given.items()}
        return given

    def ask(self, question: str, value: Value, *, usual: bool | None = None) -> bool:
        """Ask a question about *value*."""
        return self._oracle.ask(question, value, usual=usual)

    def spelled(self, how: Callable[[Any], str], value: Any) -> Any:
        """Return *value* as *how*, one of ``str``, ``repr`` and ``ascii``, has it."""
        if type(value) is Placeholder:
            return str(value) if how is str else value.step(how.__name__)
        return self.read(how(value))

    def first(self, given: object) -> Value | None:
        """Return the first value in *given* that is not known."""
        return first_unknown((given,))

    def give(self, func: Any, value: Value) -> Any:
        """Return what *func*, which is not called, would give for *value*."""
        words = words_of(func)
        self._oracle.lost(words, value)
        return Placeholder(value.then("given to", words).inexact(), self._oracle)

    def _call_language(
        self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        name = getattr(func, "__name__", "")
        if name in _TOLD and args and isinstance(args[0], ProgramState):
            value = Value(source="call", name=name, exact=False)
            self._oracle.ask("what a model tells by", value)
        if func in (image, video) and args and type(args[0]) is Placeholder:
            shown = str.__str__(self.give(func, args[0].value))
            return ir.Image(ImageData(url=shown))
        return self.read(func(*args, **kwargs))

    def _call_followed(
        self,
        func: FunctionType,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        *,
        is_plain: bool,
    ) -> Any:
        """Call the author's *func*; what it decides by unknown values is unknown.

        That is so where it says nothing and changes nothing but what it has made.
        """
        given = (args, kwargs, func)
        may_be_left = is_plain and not is_open(given)
        value = self.first(given) if may_be_left else None
        steps = None if value is None else self._oracle.steps
        result = self.helpers.run(partial(func, *args, **kwargs), steps)
        if value is not None and result is UNDECIDED:
            return self.give(func, value)
        return result

    def _make(self, kind: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Return an object of the class *kind*."""
        if kind is random.Random and args and self.first(args) is None:
            self._seeded.append(kind(*args))
            return self._seeded[-1]
        own = self.code.followed(kind.__init__)
        new: object = kind.__new__
        is_plain = type(kind) is type and new is object.__new__
        if is_plain and own is not kind.__init__:
            made = object.__new__(kind)
            own(made, *args, **kwargs)
            return made
        return self._call_others(kind, args, kwargs)

    def _call_others(
        self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        """Call what is not the author's."""
        if id(func) in OWN:
            return OWN[id(func)](self, *args, **kwargs)
        if self._varies(func, args):
            return self._vary(func)
        if is_higher_order(func):
            args = tuple(map(self._callback, args))
            kwargs = {key: self._callback(each) for key, each in kwargs.items()}
            return func(*args, **kwargs)
        if type(func) is MethodDescriptorType and func.__objclass__ is str and args:
            return self.call(getattr(args[0], func.__name__), *args[1:], **kwargs)
        owner = getattr(func, "__self__", None)
        if type(owner) is str and func.__name__ == "join" and not kwargs:
            return formats.joined(self, owner, *args)
        return self._call_unknown(func, args, kwargs)

    def _call_unknown(
        self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        """Call what knows nothing of unknown values."""
        owner = getattr(func, "__self__", None)
        value = self.first((args, owner, kwargs))
        if value is None or is_native(func):
            return func(*args, **kwargs)
        if type(func) is _CACHED:
            return self.call(func.__wrapped__, *args, **kwargs)
        if type(owner) is str:
            return formats.call(self, func, args, kwargs, value)
        return self.give(func, value)

    def _varies(self, func: Any, args: tuple[Any, ...]) -> bool:
        """Return whether *func* gives something else each time that the program runs.

        What it draws from a seed of its own is the same each time.
        """
        owner = getattr(func, "__self__", args[0] if args else None)
        if any(owner is each for each in self._seeded):
            return False
        return issubclass(type(owner), random.Random) or is_varying(func)

    def _vary(self, func: Any) -> Any:
        words = words_of(func)
        value = Value(source="call", name=words, exact=False)
        if words.endswith("shuffle"):
            self._oracle.ask("what is changed by", value)
        return Placeholder(value, self._oracle)

    def _callback(self, given: Any) -> Any:
        if isinstance(given, str | type) or not callable(given):
            return given
        return partial(self.call, given)


def _called_by(given: Any) -> FunctionType | None:
    """Return the method that calling *given* calls, if it is written in Python."""
    each = (vars(kind).get("__call__") for kind in type(given).__mro__)
    own = next((call for call in each if call is not None), None)
    return own if type(own) is FunctionType else None
