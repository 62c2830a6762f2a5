"""The end of a trace: advice that an author can follow."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sglrun as sgl
from sglrun.interpreter.tracing.tracer import trace_prefix
from sglrun.lang.chat_template import DEFAULT_TEMPLATE

RULES = "Answer in one word. Be kind. Never say what you do not know. " * 2


def below(s: Any, q: str) -> None:
    s += "Q: " + q
    s += "\n"
    s += RULES
    s += sgl.gen("a")


def within(s: Any, lang: str, q: str) -> None:
    s += f"Write {lang}. {RULES}Q: {q} A: " + sgl.gen("a")


def then_another(s: Any, lang: str, q: str) -> None:
    s += f"{lang}: {RULES}"
    s += q + sgl.gen("a")


def several(s: Any, a: str, b: str, c: str, d: str) -> None:
    s += sgl.user(f"{a} {b} {c} {d} {a}")
    s += sgl.assistant(RULES + sgl.gen("a"))


def few(s: Any, q: str) -> None:
    s += f"Q: {q}\nA: " + sgl.gen("a")


def last(s: Any, q: str) -> None:
    s += f"{RULES}Q: {q}" + sgl.gen("a")


def asks(s: Any, q: str) -> None:
    if q == "x":
        s += RULES
    s += sgl.gen("a")


def forks(s: Any, q: str) -> None:
    s += RULES
    branches = s.fork(2)
    branches += q + sgl.gen("a")
    branches.join()


def shows(s: Any, q: str) -> None:
    s += sgl.image("https://example.com/a.png")
    s += sgl.gen("a")


def fails(s: Any, q: str) -> None:
    s += RULES
    raise OSError(q)


def says_nothing(s: Any) -> None:
    s += RULES


def whole(s: Any) -> None:
    s += RULES + sgl.gen("a")


@pytest.mark.parametrize(
    ("body", "advice"),
    [
        (below, f"move {{q}} from @1 to below @3: {len(RULES) + 1} more @"),
        (
            within,
            "put {lang} and {q} at the end of what @1 says: "  # noqa: ISC004
            f"{len(f'. {RULES}Q:  A: ')} more @",
        ),
        (
            several,
            "move {a}, {b}, {c} and 1 more from @1 to below @2: "  # noqa: ISC004
            f"{len(RULES) + 4} more @",
        ),
        (
            then_another,
            f"put {{lang}} at the end of what @1 says: {len(RULES) + 2} more @",
        ),
        (few, "no change is worth it: only 4 constant characters come after {q}"),
        (last, "no change is needed: what follows is the row's own text"),
        (asks, "@before @1, where the program goes by what the row says"),
        (forks, "if the branches begin alike, say that once before @2 forks"),
        (shows, "@before @1 adds the image"),
        (fails, "@before @2, which fails without a row"),
        (says_nothing, "no change is needed: the program asks nothing of a model"),
        (whole, "no change is needed: the whole first prompt is shared"),
    ],
)
def test_advice_is_one_change(body: Callable[..., object], advice: str) -> None:
    """The change is told with the author's lines and what it would bring."""
    advice = advice.replace("@before", "say what all rows have in common before")
    advice = advice.replace("more @", "more characters would be shared")
    file, first = Path(__file__).name, body.__code__.co_firstlineno
    for offset in (1, 2, 3):
        advice = advice.replace(f"@{offset}", f"{file}:{first + offset}")
    found = trace_prefix(sgl.function(body), template=DEFAULT_TEMPLATE)

    assert found.advice == advice
