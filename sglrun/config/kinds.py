"""The kinds of values that settings have: how a text becomes one.

Rule: the same text means the same in an option, a variable and a file.
"""

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass

_ALL = 100
_STDOUT = {"-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"}
_WIDEST_METAVAR = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What the value of a setting may be.

    Attributes:
        metavar: what stands for the value in help; empty for a switch.
        expects: what a value is, to be read after "not".
        parse: returns the value that a text or a YAML value spells, or raises
            ``ValueError`` or ``TypeError``.
        repeats: the option may be given several times.
        secret: a value that is wrong may be a key, and is not shown.
    """

    metavar: str
    expects: str
    parse: Callable[[object], object]
    repeats: bool = False
    secret: bool = False


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise TypeError
    return value


def _switch(value: object) -> bool:
    words = {"1": True, "true": True, "yes": True, "on": True}
    words |= {"0": False, "false": False, "no": False, "off": False}
    if isinstance(value, bool):
        return value
    if not isinstance(value, str) or value.lower() not in words:
        raise TypeError
    return words[value.lower()]


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise TypeError
    number = float(value)
    if number != number or abs(number) == float("inf"):  # noqa: PLR0124 - NaN
        raise ValueError
    return number


def _strings(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list | tuple):
        raise TypeError
    return tuple(_text(item) for item in value)


def _headers(value: object) -> tuple[tuple[str, str], ...]:
    if isinstance(value, Mapping):
        return tuple((_text(name), _text(text)) for name, text in value.items())
    headers = []
    for line in _strings(value):
        name, colon, text = line.partition(":")
        if not (colon and name.strip()):
            raise ValueError
        headers.append((name.strip(), text.strip()))
    return tuple(headers)


def _command(value: object) -> str:
    if not shlex.split(_text(value)):
        raise ValueError
    return str(value)


def _variable(value: object) -> str:
    if not _text(value).isidentifier():
        raise ValueError
    return str(value)


def whole(low: int, metavar: str = "N") -> Kind:
    """Return the kind of whole numbers from *low*."""

    def parse(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise TypeError
        if int(value) < low:
            raise ValueError
        return int(value)

    return Kind(metavar=metavar, expects=f"a whole number from {low}", parse=parse)


def number(low: float, high: float = float("inf"), metavar: str = "X") -> Kind:
    """Return the kind of numbers from *low* to *high*."""

    def parse(value: object) -> float:
        if not low <= (parsed := _number(value)) <= high:
            raise ValueError
        return parsed

    limit = "" if high == float("inf") else f" to {high:g}"
    return Kind(metavar=metavar, expects=f"a number from {low:g}{limit}", parse=parse)


def one_of(*words: str) -> Kind:
    """Return the kind of one word of *words*."""

    def parse(value: object) -> str:
        if value not in words:
            raise ValueError
        return str(value)

    every = "|".join(words)
    metavar = every if len(every) <= _WIDEST_METAVAR else "WORD"
    return Kind(metavar=metavar, expects=f"one of {', '.join(words)}", parse=parse)


def some_of(*words: str) -> Kind:
    """Return the kind of several of *words*, with commas between."""

    def parse(value: object) -> tuple[str, ...]:
        listed = value.split(",") if isinstance(value, str) else _strings(value)
        given = tuple(word.strip() for word in listed)
        if not set(given) <= set(words):
            raise ValueError
        return given

    known = ",".join(words)
    return Kind(metavar="WORDS", expects=f"some of {known}", parse=parse)


def _row_limit(value: object) -> int | float:
    """Return a number of rows as an integer, a share of them as a fraction."""
    if isinstance(value, str) and value.endswith("%"):
        percent = _number(value.removesuffix("%"))
        if not 0 <= percent <= _ALL:
            raise ValueError
        return percent / _ALL
    return int(str(whole(0).parse(value)))


def _threads(value: object) -> int | str:
    return "auto" if value == "auto" else int(str(whole(1).parse(value)))


def _results(value: object) -> str | None:
    """Return a path; ``None`` for any name of stdout, which is where results go."""
    path = _text(value)
    return None if path in _STDOUT else path


TEXT = Kind(metavar="NAME", expects="a text", parse=_text)
PATH = Kind(metavar="FILE", expects="a path", parse=_text)
RESULTS = Kind(metavar="FILE", expects="a path", parse=_results)
URLS = Kind(
    metavar="URL",
    expects="an address or a list of them",
    parse=_strings,
    repeats=True,
)
SWITCH = Kind(metavar="", expects="true or false", parse=_switch)
SECONDS = number(0, metavar="SECONDS")
STRINGS = Kind(
    metavar="TEXT", expects="a text or a list of texts", parse=_strings, repeats=True
)
HEADERS = Kind(
    metavar="'K: V'",
    expects="of the form 'Name: value'",
    parse=_headers,
    repeats=True,
    secret=True,
)
THREADS = Kind(
    metavar="N|auto", expects="a whole number from 1 or auto", parse=_threads
)
VARIABLE = Kind(
    metavar="VAR",
    expects="the name of an environment variable",
    parse=_variable,
    secret=True,
)
COMMAND = Kind(
    metavar="COMMAND",
    expects="a command and its words",
    parse=_command,
    secret=True,
)
ROW_LIMIT = Kind(
    metavar="N|N%",
    expects="a number of rows or a share of them in percent",
    parse=_row_limit,
)
