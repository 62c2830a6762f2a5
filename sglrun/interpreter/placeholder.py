"""A placeholder: stands for an argument while a program is traced."""

from collections.abc import Callable, Iterator
from typing import Any, NoReturn, Self

# Private-use characters: no real prompt has them, so what stands before is constant.
MARK, END = "\ue000", "\ue001"
ESCAPED_MARK, ESCAPED_END = "\\ue000", "\\ue001"


class TraceEndError(BaseException):
    """Nothing after this point is the same for all rows."""


class Placeholder(str):
    """Text like any other, whose content is not known.

    What would need the content ends the trace; a part or another spelling of it is
    not known either.
    """

    __slots__ = ("name",)
    name: str

    def __new__(cls, name: str) -> Self:
        """Return the placeholder of the argument *name*."""
        made = super().__new__(cls, f"{MARK}{name}{END}")
        made.name = name
        return made

    def _unknown(self, what: str) -> NoReturn:
        raise TraceEndError(f"{what} argument {self.name!r}")

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """End the trace: a row may give another type."""
        self._unknown("the type of")

    def __getattr__(self, name: str) -> Any:
        """End the trace."""
        self._unknown(f"the attribute {name!r} of")

    def __repr__(self) -> str:
        """Return the mark, without quotes: which ones is not known."""
        return str(self)

    def __format__(self, spec: str) -> str:
        """Return the mark; how wide it is filled up to is not known."""
        return str(self)

    def __iter__(self) -> Iterator[str]:
        """End the trace."""
        self._unknown("iteration over")

    def __contains__(self, item: object) -> bool:
        """End the trace."""
        self._unknown("a search in")

    def __hash__(self) -> int:  # noqa: PLE0309 - never returns
        """End the trace."""
        self._unknown("a lookup by")


def _ending(what: str) -> Callable[..., NoReturn]:
    return lambda self, *_, **__: self._unknown(what)


def _same(self: Placeholder, *_: object, **__: object) -> Placeholder:
    return self


_PARTS = """
__getitem__ capitalize casefold center expandtabs ljust lower lstrip removeprefix
removesuffix replace rjust rstrip strip swapcase title translate upper zfill
"""
_AS_TEXT = {"format", "format_map", "join", "maketrans"}
_NEEDS = {
    "__bool__": "the truth of",
    "__len__": "the length of",
    "__int__": "the number of",
    "__float__": "the number of",
    "__index__": "the number of",
    **dict.fromkeys(
        ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"), "a comparison of"
    ),
}

for _name in _PARTS.split():
    setattr(Placeholder, _name, _same)
for _name, _what in _NEEDS.items():
    setattr(Placeholder, _name, _ending(_what))
for _name in vars(str).keys() - vars(Placeholder).keys() - _AS_TEXT:
    if not _name.startswith("_"):
        setattr(Placeholder, _name, _ending(f"{_name}() of"))
