"""A placeholder: stands for a value that is not known while a program is traced.

It is text that holds a mark. What is done to the text either keeps the mark whole, so
that it can be found again, or damages it, so that this can be seen. What is asked of
the value itself is answered by whoever traces, or ends the trace.

Python offers no way to see ``is``, the pattern functions of ``re``, a search in
constant text (``q in "abc"``), or the length of an f-string.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, Self

from sglrun.interpreter.tracing.marks import Marks
from sglrun.interpreter.tracing.value import OPERATORS, TEXT_METHODS, Step, Value
from sglrun.lang import ir

_SHOWN_ITEMS = 1


class Oracle(Protocol):
    """Answers what is asked of unknown values, or ends the trace."""

    marks: Marks

    def ask(self, question: str, value: Value, *, usual: bool | None = None) -> bool:
        """Return the answer to a yes-or-no question; note that it was asked.

        Args:
            question: what is asked, as in "the truth of".
            value: of what.
            usual: what it most likely is; ``None`` where it is no yes-or-no question.
        """
        ...

    def likely(self, value: Value) -> str | None:
        """Return what *value* may well be, where it is one of a few texts."""
        ...


class Placeholder(str):
    """Text like any other, whose content is not known."""

    __slots__ = ("_hashed", "_oracle", "is_composite", "value")
    value: Value
    is_composite: bool
    _oracle: Oracle
    _hashed: bool  # a mapping looks it up: what follows is no question of the author

    def __new__(cls, value: Value, oracle: Oracle, text: str | None = None) -> Self:
        """Return a placeholder of *value*, about which *oracle* is asked.

        Args:
            value: what it stands for, or the first value in *text*.
            oracle: answers what is asked of it.
            text: text that holds several values; it stands as it is where the
                placeholder is put into another text.
        """
        own = oracle.marks.text(value.then("text")) if text is None else text
        made = str.__new__(cls, own)
        made.value = value
        made.is_composite = text is not None
        made._hashed = False  # noqa: SLF001 - its own
        made._oracle = oracle  # noqa: SLF001 - its own
        return made

    def derived(self, value: Value) -> "Placeholder":
        """Return the placeholder of a value that comes from this one."""
        return Placeholder(value, self._oracle)

    def ask(self, question: str, *, usual: bool | None = None) -> bool:
        """Ask about the value."""
        return self._oracle.ask(question, self.value, usual=usual)

    def _spelled(self, step: str, *args: object) -> "Placeholder":
        # A subclass of text is as good as text, and can be asked.
        if self.is_composite and (step == "str" or args == ("",)):
            return self
        return self.derived(self.value.then(step, *args))

    def __str__(self) -> str:
        """Stand for the value's text."""
        return self._spelled("str")

    def __repr__(self) -> str:
        """Stand for the value as Python writes it."""
        return self._spelled("repr")

    def __format__(self, spec: str) -> str:
        """Stand for the value's text in a format."""
        return self._spelled("format", spec)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """Ask for the type, which ``isinstance`` with anything but ``str`` needs."""
        self.ask("the type of")
        return Placeholder

    def __getattr__(self, name: str) -> Any:
        """Stand for an attribute of the value, which may be no string."""
        if name.startswith("__"):
            raise AttributeError(name)
        return self.derived(self.value.then(f".{name}").inexact())

    def __call__(self, *args: object, **kwargs: object) -> "Placeholder":
        """Stand for what a method returns; ``get`` of a mapping is known."""
        *before, last = self.value.steps or (Step("()"),)
        if last.name != ".get" or kwargs:
            return self.derived(self.value.then("()", *args).inexact())
        kind = type(self.value)
        mapping = kind(
            source=self.value.source,
            name=self.value.name,
            node=self.value.node,
            steps=tuple(before),
        )
        return self.derived(mapping.then("get", *args))

    def __getitem__(self, key: Any) -> "Placeholder":
        """Stand for a part of the value."""
        if type(key) is slice:
            bounds = (key.start, key.stop, key.step)
            return self.derived(self.value.then("part", *bounds))
        return self.derived(self.value.then("item", _plain(key)))

    def __iter__(self) -> Iterator["Placeholder"]:
        """Ask; then one item stands for all."""
        self.ask("iteration over")
        for number in range(_SHOWN_ITEMS):
            yield self[number]

    def __hash__(self) -> int:
        """Ask; the answer is found where a likely value is."""
        self.ask("a lookup by")
        self._hashed = True
        likely = self._oracle.likely(self.value)
        return id(self) if likely is None else hash(likely)

    def __eq__(self, other: object) -> bool:
        """Ask, unless a mapping does."""
        likely = self._oracle.likely(self.value)
        if self._hashed:
            self._hashed = False
            return type(other) is str and str.__eq__(other, likely or "")
        usual = likely is None or type(other) is not str or other == likely
        return self.ask("a comparison of", usual=usual)

    def __ne__(self, other: object) -> bool:
        """Ask."""
        return not self == other

    def __len__(self) -> int:
        """Ask; the answer is that of one item."""
        self.ask("the length of")
        return _SHOWN_ITEMS

    def __index__(self) -> int:
        """Ask; the answer is 1."""
        self.ask("the number of")
        return 1

    __int__ = __index__

    def __float__(self) -> float:
        """Ask; the answer is 1."""
        self.ask("the number of")
        return 1.0

    def __add__(self, other: Any) -> Any:
        """Join with text or an expression, or stand for a sum."""
        if issubclass(type(other), ir.ExprList | ir.Piece):
            return NotImplemented
        if type(other) is str:
            return str.__add__(self, other)
        return self.derived(self.value.then("add", _plain(other)))

    def __radd__(self, other: Any) -> Any:
        """Join with text, or stand for a sum."""
        if type(other) is str:
            return other + str.__str__(self)
        return self.derived(self.value.then("radd", _plain(other)))

    def encode(self, *_: object, **__: object) -> bytes:
        """Ask; the answer is a mark, which encodings of bytes keep."""
        self.ask("the bytes of")
        return str.encode(self)

    def split(self, *_: object, **__: object) -> Any:
        """Ask; the answer is one part."""
        self.ask("the parts of")
        return [self.derived(self.value.then("split").inexact())]

    def partition(self, *_: object, **__: object) -> Any:
        """Ask; the answer is three parts."""
        self.ask("the parts of")
        return (self.derived(self.value.then("partition").inexact()),) * 3

    rsplit = splitlines = split
    rpartition = partition


def _plain(arg: object) -> object:
    """Return *arg*, or the value that it stands for."""
    if type(arg) is Placeholder and not arg.is_composite:
        return arg.value
    return arg


def _claim(question: str) -> Callable[..., bool]:
    return lambda self, *_, **__: self.ask(question, usual=True)


def _place(self: Placeholder, *_: object, **__: object) -> int:
    self.ask("a search in")
    return 0


def _made(step: str) -> Callable[..., Placeholder]:
    def make(self: Placeholder, *args: object, **kwargs: object) -> Placeholder:
        value = self.value.then(step, *map(_plain, args))
        return self.derived(value.inexact() if kwargs else value)

    return make


def _made_of_text(self: Placeholder, *_: object, **__: object) -> Placeholder:
    return self.derived(self.value.then("format").inexact())


def _itself(self: Placeholder, *_: object) -> Placeholder:
    return self


def _attach(names: Iterable[str], method: Callable[..., object]) -> None:
    for name in names:
        setattr(Placeholder, name, method)


_attach(("__copy__", "__deepcopy__"), _itself)
_attach(("__bool__",), _claim("the truth of"))
_attach(("__contains__",), _claim("a search in"))
_attach(("__lt__", "__le__", "__gt__", "__ge__"), _claim("a comparison of"))
_attach((name for name in dir(str) if name.startswith("is")), _claim("a test of"))
_attach(("startswith", "endswith"), _claim("a test of"))
_attach(("count", "find", "index", "rfind", "rindex"), _place)
_attach(("format", "format_map", "join", "translate"), _made_of_text)
for _name in TEXT_METHODS:
    _attach((_name,), _made(_name))
for _name in ("neg", "abs", "round"):
    _attach((f"__{_name}__",), _made(_name))
for _name in OPERATORS.keys() - {"add"}:
    _attach((f"__{_name}__",), _made(_name))
    if _name != "mod":  # ``"%s" % q`` is Python's own
        _attach((f"__r{_name}__",), _made(f"r{_name}"))
