"""A placeholder: stands for a value that is not known while a program is traced.

It is text that holds a mark, by which it is found again in a prompt. What is made of it
is a placeholder too; what is asked of it is answered by whoever traces, or ends the
trace. What Python itself does not let it see, its rewritten author's code tells; see
``operations``.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, Self

from sglrun.interpreter.tracing.marks import Marks
from sglrun.interpreter.tracing.value import (
    OPERATORS,
    TEXT_METHODS,
    Fragment,
    Mark,
    Step,
    Value,
    composed,
)
from sglrun.lang import ir

_SHOWN_ITEMS = 1


class Oracle(Protocol):
    """Answers what is asked of unknown values, or ends the trace.

    Attributes:
        marks: those of the trace.
        steps: how many steps were traced.
    """

    marks: Marks
    steps: int

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

    def made(self, value: Value) -> None:
        """Note that *value* is made where it is, which may fail."""
        ...

    def go_on(self) -> None:
        """Do nothing, unless the trace has ended meanwhile."""
        ...

    def lost(self, what: str, value: Value) -> None:
        """Note that *what* is not done to *value*, though a row would do it."""
        ...


class Placeholder(str):
    """Text like any other, whose content is not known."""

    __slots__ = ("_hashed", "_oracle", "value")
    value: Value
    _oracle: Oracle
    _hashed: bool  # a mapping looks it up: what follows is no question of the author

    def __new__(cls, value: Value, oracle: Oracle) -> Self:
        """Return a placeholder of *value*, about which *oracle* is asked."""
        marks = oracle.marks
        if value.is_composed:
            own = "".join(
                part if isinstance(part, str) else marks.text(part.value)
                for part in value.fragments
            )
        else:
            own = marks.text(value.as_said())
        made = str.__new__(cls, own)
        made.value = value
        made._hashed = False  # noqa: SLF001 - its own
        made._oracle = oracle  # noqa: SLF001 - its own
        return made

    def step(self, name: str, *args: object) -> "Placeholder":
        """Return the placeholder of what *name* with *args* makes of the value."""
        plain = tuple(map(_plain, args))
        made = self.value.then(name, *plain)
        if self.value.may_fail(name, *plain):
            self._oracle.made(made)
        return Placeholder(made, self._oracle)

    def unknown_step(self, name: str, *args: object) -> "Placeholder":
        """Return the placeholder of what is made of the value in an unknown way."""
        made = self.value.then(name, *map(_plain, args)).inexact()
        return Placeholder(made, self._oracle)

    def fragments(self) -> tuple[Fragment, ...]:
        """Return what it adds to a text."""
        if self.value.is_composed:
            return self.value.fragments
        if self.value.may_fail("text"):
            self._oracle.made(self.value.as_text())
        return (Mark(self.value.as_text()),)

    def ask(self, question: str, *, usual: bool | None = None) -> bool:
        """Ask about the value."""
        return self._oracle.ask(question, self.value, usual=usual)

    def lose(self, what: str) -> None:
        """Note that *what* is not done to the value."""
        self._oracle.lost(what, self.value)

    def joined(self, parts: Iterable[str]) -> str:
        """Return *parts* as one text."""
        fragments: list[Fragment] = []
        for part in parts:
            more = part.fragments() if type(part) is Placeholder else (part,)
            for each in more:
                if fragments and isinstance(each, str) and type(fragments[-1]) is str:
                    fragments[-1] += each
                elif each != "":
                    fragments.append(each)
        return Placeholder(composed(tuple(fragments)), self._oracle)

    def __str__(self) -> str:
        """Stand for the value's text."""
        return self if self.value.is_composed else self.step("str")

    def __repr__(self) -> str:
        """Stand for the value as Python writes it."""
        return self.step("repr")

    def __format__(self, spec: str) -> str:
        """Stand for the value's text in a format."""
        if self.value.is_composed and type(spec) is str and not spec:
            return self
        return self.step("format", spec)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """Ask for the type, which ``isinstance`` with anything but ``str`` needs."""
        self.ask("the type of")
        return Placeholder

    def __getattr__(self, name: str) -> Any:
        """Stand for an attribute of the value, which may be no string."""
        if name.startswith("__"):
            raise AttributeError(name)
        return self.unknown_step(f".{name}")

    def __call__(self, *args: object, **kwargs: object) -> "Placeholder":
        """Stand for what a method returns; ``get`` of a mapping is known."""
        *before, last = self.value.steps or (Step("()"),)
        if last.name != ".get" or kwargs:
            self.lose(f"a call of {last.name.lstrip('.')!r}")
            return self.unknown_step("()", *args)
        mapping = Value(
            source=self.value.source,
            name=self.value.name,
            node=self.value.node,
            fragments=self.value.fragments,
            steps=tuple(before),
        )
        return Placeholder(mapping, self._oracle).step("get", *args)

    def __enter__(self) -> "Placeholder":  # noqa: PYI034
        """Stand for what is entered."""
        self.lose("a 'with'")
        return self.unknown_step(".__enter__()")

    def __exit__(self, *_: object) -> None:
        """Let errors pass."""

    def __getitem__(self, key: Any) -> "Placeholder":
        """Stand for a part of the value."""
        if type(key) is slice:
            return self.step("part", key.start, key.stop, key.step)
        return self.step("item", key)

    def __setitem__(self, key: object, given: object) -> None:
        """Note that the value is another one from here on."""
        self._change()

    def __delitem__(self, key: object) -> None:
        """Note that the value is another one from here on."""
        self._change()

    def _change(self) -> None:
        if self.value.source == "global" and not self.value.steps:
            self.lose("a change")  # whoever reads it next does not know it anyway
        else:
            self.ask("a change of")

    def __iter__(self) -> Iterator["Placeholder"]:
        """Ask; then one item stands for all."""
        self.ask("iteration over")
        for number in range(_SHOWN_ITEMS):
            yield self[number]

    def __next__(self) -> "Placeholder":
        """Stand for what comes next of an iterator."""
        self.lose("next()")
        return self.unknown_step("next()")

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
        is_text = type(other) is str or _is_composed(other) or self.value.is_composed
        if is_text and type(other) in (str, Placeholder):
            return self.joined((self, other))
        return self.step("add", other)

    def __radd__(self, other: Any) -> Any:
        """Join with text, or stand for a sum."""
        return (
            self.joined((other, self))
            if type(other) is str
            else self.step("radd", other)
        )

    def encode(self, *_: object, **__: object) -> bytes:
        """Ask; the answer is a mark, which encodings of bytes keep."""
        self.ask("the bytes of")
        return str.encode(self)

    def split(self, *_: object, **__: object) -> Any:
        """Ask; the answer is one part."""
        self.ask("the parts of")
        return [self.unknown_step("split")]

    def partition(self, *_: object, **__: object) -> Any:
        """Ask; the answer is three parts."""
        self.ask("the parts of")
        return (self.unknown_step("partition"),) * 3

    rsplit = splitlines = split
    rpartition = partition


def _plain(arg: object) -> object:
    """Return *arg*, or the value that it stands for."""
    return arg.value if type(arg) is Placeholder else arg


def _is_composed(given: object) -> bool:
    return type(given) is Placeholder and given.value.is_composed


def _claim(question: str) -> Callable[..., bool]:
    return lambda self, *_, **__: self.ask(question, usual=True)


def _place(self: Placeholder, *_: object, **__: object) -> int:
    self.ask("a search in")
    return 0


def _made(step: str) -> Callable[..., Placeholder]:
    def make(self: Placeholder, *args: object, **kwargs: object) -> Placeholder:
        if kwargs:
            return self.unknown_step(step, *args, *kwargs.values())
        return self.step(step, *args)

    return make


def _made_of_text(self: Placeholder, *_: object, **__: object) -> Placeholder:
    self.lose("a format")
    return self.unknown_step("format")


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
