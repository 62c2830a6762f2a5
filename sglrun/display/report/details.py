"""The details of a report: errors, values, finish reasons, and rows."""

from collections.abc import Iterable

from sglrun.display import wording
from sglrun.display.report.error_kinds import ErrorKind
from sglrun.display.report.markup import Content, Html, element
from sglrun.display.report.parts import cut_text, more_words, section, table, text
from sglrun.display.report.samples import MOST_FAILED, ShownRow
from sglrun.display.report.subject import Subject
from sglrun.display.report.variables import Values

_SHOWN_KINDS = 20
_SHOWN_VARIABLES = 40


def error_section(subject: Subject) -> Content:
    """Return the kinds of errors, the most frequent first, with examples."""
    kinds = list(subject.findings.errors.most_common())
    if not kinds:
        return None
    return section(
        "Errors",
        element("div", [_kind(kind) for kind in kinds[:_SHOWN_KINDS]]),
        note=more_words(_SHOWN_KINDS, len(kinds) + subject.findings.errors.others),
    )


def value_section(subject: Subject) -> Content:
    """Return how often variables with few values had which."""
    found = list(subject.findings.variables.few_values())
    if not found:
        return None
    tables = [_value_table(values) for values in found[:_SHOWN_VARIABLES]]
    return section(
        "Values",
        element("div", tables, class_="several"),
        note=more_words(_SHOWN_VARIABLES, len(found)),
    )


def reason_section(subject: Subject) -> Content:
    """Return why generations ended, by variable."""
    found = subject.findings.variables.finish_reasons
    if not found:
        return None
    reasons = sorted({reason for counts in found.values() for reason in counts})
    reasons.sort(key=lambda reason: reason != "stop")
    heads = ["variable ", *reasons, *(["cut off"] if "length" in reasons else [])]
    rows = [
        [
            element("code", name or "(unnamed)"),
            *(f"{counts[reason]:,}" if counts[reason] else "" for reason in reasons),
            wording.share(counts["length"], counts.total()),
        ][: len(heads)]
        for name, counts in list(found.items())[:_SHOWN_VARIABLES]
    ]
    return section(
        "Finish reasons",
        table(heads, rows),
        note=more_words(_SHOWN_VARIABLES, len(found)),
    )


def sample_section(subject: Subject) -> Content:
    """Return some rows that gave a value."""
    rows = list(subject.findings.samples.sampled)
    if not rows:
        return None
    ok = subject.findings.ok
    note = f"{len(rows):,} of {ok:,}, at random" if ok > len(rows) else ""
    shown = [element("div", _head(row), _values(row), class_="item") for row in rows]
    return section("Rows", element("div", shown), note=note)


def failed_section(subject: Subject) -> Content:
    """Return the first rows that failed."""
    rows = subject.findings.samples.failed
    if not rows:
        return None
    shown = [
        element(
            "details", element("summary", _failure(row)), _values(row), class_="item"
        )
        for row in rows
    ]
    return section(
        "Failed rows",
        element("div", shown),
        note=more_words(MOST_FAILED, subject.findings.failed),
    )


def slowest_section(subject: Subject) -> Content:
    """Return the rows that took longest."""
    rows = [row for row in subject.findings.samples.slowest if row.usage.requests]
    if not rows:
        return None
    named = any(row.id is not None for row in rows)
    heads = ("row", *([" id "] if named else []), *_COSTS)
    cells = [
        [
            f"{row.index:,}",
            *([None if row.id is None else cut_text(row.id)] if named else []),
            wording.latency(row.seconds),
            f"{row.usage.requests:,}",
            f"{row.usage.prompt_tokens:,}",
            f"{row.usage.cached_tokens:,}",
            f"{row.usage.completion_tokens:,}",
            f"{row.attempts:,}",
        ]
        for row in rows
    ]
    return section("Slowest rows", table(heads, cells))


_COSTS = ("took", "requests", "prompt", "cached", "completion", "tries")


def _kind(kind: ErrorKind) -> Html:
    place = None if kind.where is None else element("code", kind.where)
    where = [" at ", place] if place else None
    variable = [" in ", element("code", kind.variable)] if kind.variable else None
    examples = [
        element(
            "p",
            element("span", f"row {index:,}  ", class_="soft small"),
            text(message),
        )
        for message, index in kind.examples.items()
    ]
    return element(
        "div",
        element(
            "p",
            element("span", kind.type, class_="bad"),
            element("span", where, variable),
            element("span", wording.of_many(kind.count, "row"), class_="end"),
            class_="head",
        ),
        examples,
        class_="item",
    )


def _value_table(values: Values) -> Html:
    most = values.counts[0][1]
    rows = [
        [
            text(value or "(empty)"),
            element("span", class_="fill", style=f"width:{100 * count / most:.1f}%"),
            f"{count:,}",
            wording.share(count, values.total),
        ]
        for value, count in values.counts
    ]
    body = [
        element(
            "tr",
            element("td", row[0]),
            element("td", row[1], class_="wide"),
            [element("td", cell, class_="n") for cell in row[2:]],
        )
        for row in rows
    ]
    title = element("h3", element("code", values.name or "(unnamed)"))
    return element("div", title, element("table", element("tbody", body)))


def _head(row: ShownRow) -> Html:
    name = None if row.id is None else element("span", cut_text(row.id), class_="soft")
    tokens = row.usage.prompt_tokens + row.usage.completion_tokens
    cost = f"{wording.latency(row.seconds)}, {wording.of_many(tokens, 'token')}"
    return element(
        "p",
        element("span", f"row {row.index:,}"),
        name,
        element("span", cost, class_="end"),
        class_="head",
    )


def _failure(row: ShownRow) -> Iterable[Html]:
    error = row.error
    assert error is not None, "a failed row has an error"  # noqa: S101
    name = [" ", cut_text(row.id)] if row.id is not None else None
    where = [" ", element("code", error.where)] if error.where else None
    return [
        element("span", f"row {row.index:,}", name),
        element("span", " ", element("span", error.type, class_="bad"), where),
    ]


def _values(row: ShownRow) -> Html:
    message = (
        [element("dt", "error"), element("dd", cut_text(row.message))]
        if row.error is not None
        else None
    )
    said = [
        [
            element("dt", name),
            element("dd", cut_text(value), class_=kind),
        ]
        for kind, values in (("soft", row.given), (None, row.output))
        for name, value in values
    ]
    return element("dl", message, said, class_="values")
