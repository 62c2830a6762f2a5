"""The page: a report as HTML that loads nothing, runs nothing and fits on paper."""

from collections.abc import Callable, Iterator
from pathlib import PurePath

from sglrun.batch.past_run import PastRun
from sglrun.display.report.details import (
    error_section,
    failed_section,
    reason_section,
    sample_section,
    slowest_section,
    value_section,
)
from sglrun.display.report.markup import Content, Html, element, joined
from sglrun.display.report.overview import (
    outcome_section,
    speed_section,
    token_section,
)
from sglrun.display.report.parts import facts, section
from sglrun.display.report.style import STYLE
from sglrun.display.report.subject import Subject

MARK = '<meta name="generator" content="sglrun report">'
"""Stands in every page, so that a page can be told from another file."""

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def render_page(subject: Subject) -> bytes:
    """Return the page about *subject*, in UTF-8."""
    body = joined(
        [
            _header(subject),
            [draw(subject) for draw in _SECTIONS],
            _run_section(subject),
            _footer(subject),
        ]
    )
    title = element("title", f"{PurePath(subject.name).name}: sglrun report")
    page = (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'{MARK}\n<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f"{title}\n<style>{STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )
    return page.encode("utf-8")


_SECTIONS: tuple[Callable[[Subject], Content], ...] = (
    outcome_section,
    speed_section,
    token_section,
    error_section,
    value_section,
    reason_section,
    sample_section,
    failed_section,
    slowest_section,
)


def _header(subject: Subject) -> Html:
    identity = {} if subject.run is None else subject.run.identity
    words = [identity[name] for name in ("program", "model") if identity.get(name)]
    backend = identity.get("backend")
    what = [*words, *([f"{backend} backend"] if backend else [])]
    return element(
        "header",
        element("p", "sglrun report", class_="kicker small"),
        element("h1", subject.name),
        element("p", " · ".join(what), class_="what") if what else None,
    )


def _run_section(subject: Subject) -> Content:
    if subject.run is None:
        return None
    return section("Run", facts(list(_run_facts(subject.run))))


def _run_facts(run: PastRun) -> Iterator[tuple[str, Content]]:
    if run.command:
        yield "command", element("span", run.command, class_="code text")
    yield "began", run.started
    if run.last is not None:
        yield "ended", run.last.ended
    if run.url:
        yield "server", run.url
    if run.server:
        yield "it is", run.server
    for name, value in run.identity.items():
        if value and name not in _IN_HEADER:
            yield name, element("span", value, class_="code text")
    versions = ", ".join(f"{name} {version}" for name, version in run.versions.items())
    if versions:
        yield "versions", versions


_IN_HEADER = {"program", "model", "backend"}


def _footer(subject: Subject) -> Html:
    by = f"sglrun {subject.version}".strip()
    return element("footer", f"Made by {by}, {subject.made}.")
