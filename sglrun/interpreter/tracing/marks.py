"""Marks: texts that stand for unknown values, and finding them again.

No code of others ever sees a mark, and what the author's code does to text with one in
it is followed; so a mark is either whole or not there.
"""

import re

from sglrun.interpreter.tracing.value import Fragment, Mark, Value

_CORE = "Qz7Xk9Wv3Jp5Hd2Mark"  # which no prompt has
_WHOLE = re.compile(rf"{_CORE}(\d+)E")


class Marks:
    """The marks of one trace. Safe from any thread."""

    def __init__(self) -> None:
        """Begin without marks."""
        self._values: list[Value] = []

    def text(self, value: Value) -> str:
        """Return a new mark for *value*."""
        self._values.append(value)
        return f"{_CORE}{len(self._values) - 1}E"

    def fragments(self, text: str) -> tuple[Fragment, ...]:
        """Return *text* as constant parts and the values between them."""
        text = str.__str__(text)  # a placeholder's own, which asks nothing
        found: list[Fragment] = []
        at = 0
        for mark in _WHOLE.finditer(text):
            found += [text[at : mark.start()], Mark(self._values[int(mark[1])])]
            at = mark.end()
        return tuple(part for part in (*found, text[at:]) if part != "")

    def first(self, text: str) -> Value | None:
        """Return the value of the first mark in *text*."""
        found = _WHOLE.search(text)
        return None if found is None else self._values[int(found[1])]


def find_mark(text: str) -> int:
    """Return where the first mark in *text* begins; -1 without one."""
    return text.find(_CORE)


def has_mark(text: str) -> bool:
    """Return whether *text* holds a mark."""
    return _CORE in text
