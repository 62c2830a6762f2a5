"""The summary: what came of a run, in a few lines on stderr."""

import textwrap
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field

from sglrun.batch.summary import RunSummary
from sglrun.display import wording
from sglrun.display.complaints import Complaint, Complaints

_SHOWN_ERRORS = 3
_MOST_LINES = 3
_NARROWEST = 15
_LABEL = 9
_BOLD, _RED, _DIM, _PLAIN = "\x1b[1m", "\x1b[31m", "\x1b[2m", "\x1b[0m"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """All that a summary tells.

    Attributes:
        summary: what came of this run.
        resumed: rows that an earlier run had finished.
        complaints: the errors of this run's rows.
        output: the file of the results, if they went to one.
        resumable: the same command again goes on where this run ended.
    """

    summary: RunSummary
    resumed: int = 0
    complaints: Complaints = field(default_factory=Complaints)
    output: str | None = None
    resumable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One fact: a label, and text that may be painted."""

    label: str
    text: str
    style: str = ""

    def render(self, *, width: int, color: bool) -> Iterator[str]:
        """Return the fact as it is written, wrapped at *width* columns."""
        room = max(_NARROWEST, width - _LABEL - 2)
        wrapped = textwrap.wrap(
            self.text,
            room,
            max_lines=_MOST_LINES,
            placeholder=" …",
            break_on_hyphens=False,
        )
        label = self.label
        for text in wrapped:
            start = f"  {label:<{_LABEL}}"
            if color:
                end = _PLAIN if self.style else ""
                yield f"{_DIM}{start}{_PLAIN}{self.style}{text}{end}"
            else:
                yield start + text
            label = ""


def render(outcome: Outcome, *, width: int, color: bool) -> Iterator[str]:
    """Return the lines of the summary.

    Args:
        outcome: what to tell.
        width: columns of the terminal.
        color: paint them.
    """
    head = headline(outcome)
    yield f"{_BOLD}{head}{_PLAIN}" if color else head
    for line in _lines(outcome):
        yield from line.render(width=width, color=color)


def headline(outcome: Outcome) -> str:
    """Return the first line: rows, failures, time and pace."""
    summary = outcome.summary
    if not summary.rows and outcome.resumed and summary.stopped_by is None:
        before = wording.of_many(outcome.resumed, "row")
        return f"sglrun: already complete: {before} done before"
    parts = [f"{summary.ok:,} ok"]
    if summary.failed:
        parts.append(f"{summary.failed:,} failed")
    if outcome.resumed:
        parts.append(f"{outcome.resumed:,} done before")
    rows = wording.of_many(summary.rows + outcome.resumed, "row")
    pace = wording.rate(summary.rows / summary.seconds) if summary.seconds else ""
    time = f"{wording.duration(summary.seconds)}{f', {pace}' if pace else ''}"
    return f"sglrun: {rows} in {time}: {', '.join(parts)}"


def as_event(outcome: Outcome) -> dict[str, object]:
    """Return the summary for machines, as the last of the JSON lines of progress."""
    summary = outcome.summary
    return {
        "event": "summary",
        "ok": summary.ok,
        "failed": summary.failed,
        "resumed": outcome.resumed,
        "replayed": summary.replayed,
        "seconds": round(summary.seconds, 3),
        **asdict(summary.usage),
        "prefix_tokens": summary.plan.tokens if summary.plan.usage else 0,
        "predicted_cached_tokens": summary.predicted_cached_tokens,
        "saved_tokens": summary.saved_tokens,
        "cut": summary.cut,
        "cost": summary.cost,
        "lost_requests": summary.lost.requests,
        "output": outcome.output,
        "exit_code": summary.exit_code,
        "errors": [
            {"count": complaint.count, **asdict(complaint.first)}
            for complaint in outcome.complaints.most_common(_SHOWN_ERRORS)
        ],
    }


def _lines(outcome: Outcome) -> Iterator[Line]:
    yield from _usage(outcome)
    yield from _prefix(outcome.summary)
    if cut := outcome.summary.cut:
        yield Line(
            label="cut",
            text=f"{wording.of_many(cut, 'generation')} reached the token limit "
            "(finish_reason length)",
        )
    if lost := outcome.summary.lost.requests:
        yield Line(
            label="lost",
            text=f"{wording.of_many(lost, 'request')} broke off or timed out; later "
            "answers were not read, but may have to be paid",
        )
    yield from _errors(outcome.complaints)
    if outcome.output:
        advice = _advice(outcome)
        yield Line(label="output", text=f"{outcome.output}{advice}")


def _usage(outcome: Outcome) -> Iterator[Line]:
    summary = outcome.summary
    whole = summary.whole_usage
    if not whole.requests and not summary.replayed:
        return
    replayed = outcome.summary.replayed
    again = f", {replayed:,} answered before and not sent again" if replayed else ""
    yield Line(label="requests", text=f"{whole.requests:,}{again}")
    read = wording.count(whole.prompt_tokens)
    share = wording.share(whole.cached_tokens, whole.prompt_tokens)
    cost = "" if summary.cost is None else f"; {_cost(summary.cost, summary.rows)}"
    yield Line(
        label="tokens",
        text=f"{read} prompt ({wording.count(whole.cached_tokens)} cached, {share}), "
        f"{wording.count(whole.completion_tokens)} completion{cost}",
    )


def _cost(cost: float, rows: int) -> str:
    each = f", {cost / rows:,.4g} a row" if rows else ""
    return f"cost {cost:,.4f}{each}"


def _prefix(summary: RunSummary) -> Iterator[Line]:
    plan = summary.plan
    end = f"ends at {plan.where}" if plan.where else "ends"
    why = f"; {end}: {plan.ended_by}" if plan.ended_by else ""
    if plan.usage is not None:
        size = wording.of_many(plan.tokens, "token")
        text = f"{size} shared by all rows, read once; {_precached(summary)}{why}"
        yield Line(label="prefix", text=text)
    elif plan.text:
        size = wording.of_many(len(plan.text), "character")
        yield Line(label="prefix", text=f"{size} shared by all rows{why}")


def _precached(summary: RunSummary) -> str:
    predicted = f"cached: {wording.count(summary.predicted_cached_tokens)} predicted"
    if not summary.usage.cached_tokens:  # which not every server tells
        return f"{predicted}, none measured"
    measured = wording.count(summary.usage.cached_tokens)
    saved = wording.count(summary.saved_tokens)
    return f"{predicted}, {measured} measured, {saved} saved"


def _errors(complaints: Complaints) -> Iterator[Line]:
    label = "errors"
    for complaint in complaints.most_common(_SHOWN_ERRORS):
        yield Line(label=label, text=_complaint(complaint), style=_RED)
        label = ""
    more = len(complaints) - _SHOWN_ERRORS
    if more > 0:
        yield Line(label=label, text=f"and {wording.of_many(more, 'other kind')}")


def _complaint(complaint: Complaint) -> str:
    error = complaint.first
    where = f" ({error.where})" if error.where else ""
    message = " ".join(error.message.split())
    return f"{complaint.count:,} x {error.type}{where}: {message}"


def _advice(outcome: Outcome) -> str:
    if outcome.summary.stopped_by is not None and outcome.resumable:
        return "; the same command again goes on from here"
    if outcome.summary.failed and outcome.resumable:
        return "; the same command again retries the failed rows"
    return ""
