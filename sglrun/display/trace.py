"""The trace: a trace report as people read it in a terminal."""

import io

from rich.console import Console
from rich.text import Text

from sglrun.display.graph import render_tree
from sglrun.display.traced import SharedText, TraceReport
from sglrun.display.wording import of_many

_LABEL = 8
_MOST_LINES = 12
_NARROWEST = 20
_GUIDE = "│"
WIDTH_OF_A_FILE = 140
"""Columns where no terminal has any."""


def render_trace(
    report: TraceReport, *, color: bool, width: int = WIDTH_OF_A_FILE
) -> str:
    """Return *report* as text, in colours or not, wrapped at *width* columns."""
    console = Console(
        file=io.StringIO(),
        force_terminal=color,
        no_color=not color,
        highlight=False,
        width=width,
    )
    ends = report.trace.prefix
    place = f"{ends.where}: " if ends.where else ""
    with console.capture() as captured:
        _say(console, "prefix", _size(report.prefix, report.counted_by))
        _show_text(console, report.prefix.text)
        _say(console, "ends", f"{place}{ends.ended_by}")
        _say(console, "advice", ends.advice)
        if report.rows is not None:
            _say(console, "rows", _compared(report.rows, report.prefix))
            _show_text(console, report.rows.text[len(report.prefix.text) :], begin="…")
        console.print()
        console.print(render_tree(report.trace.graph, report.program))
    return captured.get()


def _say(console: Console, label: str, words: str) -> None:
    _print(console, Text(f"{label:<{_LABEL}}", style="bold"), words)


def _print(console: Console, begin: Text, words: str) -> None:
    """Write *words* after *begin*, and further lines below them."""
    room = max(_NARROWEST, console.width - len(begin))
    for number, line in enumerate(Text(words).wrap(console, room)):
        line.rstrip()
        guide = begin if not number or begin.plain.strip() == _GUIDE else None
        console.print((guide or Text(" " * len(begin))) + line, soft_wrap=True)


def _size(shared: SharedText, counted_by: str) -> str:
    characters = of_many(len(shared.text), "character")
    return f"{characters}, {of_many(shared.tokens, 'token')} ({counted_by})"


def _compared(rows: SharedText, prefix: SharedText) -> str:
    seen = f"the first {of_many(rows.rows, 'row')}"
    more = len(rows.text) - len(prefix.text)
    if more <= 0:
        return f"{seen} share no more than that"
    characters = of_many(len(rows.text), "character")
    return (
        f"{seen} share {characters}, {of_many(rows.tokens, 'token')}: "
        f"{of_many(more, 'character')} more than the program promises"
    )


def _show_text(console: Console, text: str, *, begin: str = "") -> None:
    if not text:
        return
    lines = f"{begin}{text}".split("\n")
    if len(lines) > _MOST_LINES:
        half = _MOST_LINES // 2
        hidden = of_many(len(lines) - 2 * half, "line")
        lines = [*lines[:half], f"… {hidden} …", *lines[-half:]]
    for line in lines:
        _print(console, Text(f"  {_GUIDE} ", style="dim"), line)
