"""The overview: a run's outcome, its speed, and what it read and wrote."""

from collections.abc import Iterator

from sglrun.batch.past_run import LastRun, PastPrefix
from sglrun.display import wording
from sglrun.display.report.charts import histogram, stacked, throughput
from sglrun.display.report.markup import Content, element
from sglrun.display.report.parts import facts, figures, section
from sglrun.display.report.subject import Subject


def outcome_section(subject: Subject) -> Content:
    """Return how many rows there are, and what became of them."""
    found, left = subject.findings, subject.left
    total = found.rows + (left or 0)
    pairs: list[tuple[str, Content]] = [
        ("rows" if left is not None else "rows so far", f"{total:,}"),
        ("ok", f"{found.ok:,}"),
        ("failed", _failed(found.failed)),
    ]
    if left is not None and not _is_complete(subject):
        pairs.append(("left", f"{left:,}"))
    return section(
        "Outcome",
        figures(pairs),
        stacked(
            [
                ("ok", found.ok, ""),
                ("failed", found.failed, "bad"),
                ("left", left or 0, "left"),
            ]
        ),
        element("p", _state(subject)),
        _unread(subject),
    )


def speed_section(subject: Subject) -> Content:
    """Return how fast rows were."""
    latencies = subject.findings.latencies
    last = None if subject.run is None else subject.run.last
    pairs: list[tuple[str, Content]] = []
    if last is not None and last.seconds:
        rows = last.ok + last.failed
        pairs += [
            ("took", wording.duration(last.seconds)),
            ("pace", wording.rate(rows / last.seconds)),
        ]
    pairs += [
        (label, wording.latency(latencies.quantile(part)))
        for label, part in _QUANTILES
        if latencies
    ]
    if not pairs:
        return None
    return section(
        "Speed",
        figures(pairs, less=True),
        _last_run_words(last),
        element(
            "div",
            throughput(last.times, last.seconds) if last and last.times.ok else None,
            histogram(latencies) if latencies else None,
            class_="several",
        ),
        _retried(subject),
    )


def token_section(subject: Subject) -> Content:
    """Return what was read and written, and what the shared prefix saved."""
    usage, rows = subject.usage, subject.findings.rows
    if not usage.requests:
        return None
    computed = usage.prompt_tokens - usage.cached_tokens
    pairs: list[tuple[str, Content]] = [
        ("requests", f"{usage.requests:,}"),
        ("prompt tokens", wording.count(usage.prompt_tokens)),
        ("of these cached", wording.share(usage.cached_tokens, usage.prompt_tokens)),
        ("completion tokens", wording.count(usage.completion_tokens)),
    ]
    if subject.cost is not None:
        pairs.append(("cost", f"{subject.cost:,.4f}"))
    last = None if subject.run is None else subject.run.last
    each = round((usage.prompt_tokens + usage.completion_tokens) / rows) if rows else 0
    return section(
        "Tokens",
        figures(pairs),
        stacked(
            [
                ("prompt, cached", usage.cached_tokens, "pale"),
                ("prompt, computed", computed, ""),
                ("completion", usage.completion_tokens, "left"),
            ]
        ),
        None if last is None else _prefix(last),
        note=f"{each:,} a row",
    )


_QUANTILES = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("longest", 1.0))


def _prefix(last: LastRun) -> Content:
    if last.prefix.usage is None:
        return None
    title = element("h3", "Shared prefix, read once before the rows")
    return element("div", title, facts(list(_prefix_facts(last))))


def _prefix_facts(last: LastRun) -> Iterator[tuple[str, Content]]:
    usage = last.usage
    yield "size", f"{wording.of_many(last.prefix.tokens, 'token')}{_ends(last.prefix)}"
    for label, cached in (
        ("predicted", last.predicted_cached_tokens),
        ("measured", usage.cached_tokens),
    ):
        share = wording.share(cached, usage.prompt_tokens)
        yield label, f"{cached:,} cached tokens, {share} of the prompts"
    if usage.cached_tokens:
        yield "saved", f"{last.saved_tokens:,} tokens: measured, less the one reading"


def _ends(prefix: PastPrefix) -> str:
    where = f" at {prefix.where}" if prefix.where else ""
    return f", up to {prefix.ended_by}{where}" if prefix.ended_by else ""


def _is_complete(subject: Subject) -> bool:
    return subject.run is not None and subject.run.complete


def _failed(number: int) -> Content:
    return element("span", f"{number:,}", class_="bad") if number else "0"


def _state(subject: Subject) -> Content:
    run = subject.run
    if run is None:
        return (
            "These are results without a manifest: how many rows were asked for is "
            "not known."
        )
    if run.complete:
        failed = subject.findings.failed
        again = " The same command again retries the failed rows." if failed else ""
        return f"Complete: every row of the input has a result.{again}"
    if run.alive:
        return f"The run is under way, as process {run.pid}."
    return "Not complete: the run was interrupted. The same command again goes on."


def _unread(subject: Subject) -> Content:
    if not subject.unread:
        return None
    lines = wording.of_many(subject.unread, "line")
    return element(
        "p", f"{lines} of the file could not be read as results.", class_="bad"
    )


def _last_run_words(last: LastRun | None) -> Content:
    if last is None or not last.resumed:
        return None
    rows = wording.of_many(last.ok + last.failed, "row")
    words = f"Time and pace are those of the last run, which ran {rows}."
    return element("p", words, class_="soft small")


def _retried(subject: Subject) -> Content:
    found = subject.findings
    if not found.retried:
        return None
    rows = wording.of_many(found.retried, "row")
    return element(
        "p",
        f"{rows} had a request that was sent again; the most tries were "
        f"{found.attempts:,}.",
        class_="soft small",
    )
