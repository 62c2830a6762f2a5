"""Charts: bars drawn as SVG, with what they mean beside them as text."""

from collections.abc import Sequence

from sglrun.batch.timeline import Times
from sglrun.display import wording
from sglrun.display.report.latencies import Latencies
from sglrun.display.report.markup import Content, Html, element

_WIDTH, _HEIGHT = 1000.0, 120.0
_GAP = 0.12  # of a bar


def histogram(latencies: Latencies) -> Html:
    """Return how the latencies of rows are spread, with their median and tail."""
    spread = latencies.spread()
    counts = (*spread.counts, spread.beyond) if spread.beyond else spread.counts
    most = max(counts, default=0)
    last = len(spread.counts)
    bars = [
        _bar(
            at, count, len(counts), most, _latency_words(at, count, spread.step_s, last)
        )
        for at, count in enumerate(counts)
    ]
    end_s = spread.step_s * len(counts)
    marks = [
        _mark(latencies.quantile(part) / end_s, f"{name} {wording.latency(at)}")
        for name, part in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))
        for at in [latencies.quantile(part)]
        if at <= spread.end_s
    ]
    words = f"more than {wording.latency(spread.end_s)}" if spread.beyond else None
    return _figure(
        f"rows by latency, up to {most:,} in each {_step(spread.step_s)}",
        [bars, marks],
        ("0", words or wording.latency(spread.end_s)),
    )


def throughput(times: Times, seconds: float) -> Html:
    """Return how many rows ended when, those that failed apart."""
    both = [good + bad for good, bad in zip(times.ok, times.failed, strict=True)]
    most = max(both, default=0)
    bars = []
    for at, (whole, bad) in enumerate(zip(both, times.failed, strict=True)):
        begin = wording.latency(at * times.span_s)
        failed = f", {bad:,} failed" if bad else ""
        title = f"from {begin}: {wording.of_many(whole, 'row')}{failed}"
        bars.append(_bar(at, whole, len(both), most, title))
        bars.append(_bar(at, bad, len(both), most, title, class_="bad"))
    return _figure(
        f"rows by time, up to {most:,} in each {_step(times.span_s)}",
        bars,
        ("0", wording.duration(seconds)),
    )


def stacked(parts: Sequence[tuple[str, int, str]]) -> Html:
    """Return one bar made of *parts*: label, number and class, and what they are."""
    shown = [part for part in parts if part[1]]
    bar = [
        element("i", class_=kind or None, style=f"flex:{number}", title=label)
        for label, number, kind in shown
    ]
    key = [
        element("span", element("i", class_=kind or None), f"{label} {number:,}")
        for label, number, kind in shown
    ]
    return element(
        "div", element("div", bar, class_="bar"), element("div", key, class_="key")
    )


def _latency_words(at: int, count: int, step_s: float, last: int) -> str:
    rows = wording.of_many(count, "row")
    begin = wording.latency(at * step_s)
    if at == last:
        return f"more than {begin}: {rows}"
    return f"{begin} to {wording.latency((at + 1) * step_s)}: {rows}"


def _step(seconds: float) -> str:
    return f"{seconds * 1000:g} ms" if seconds < 0.1 else f"{seconds:g} s"  # noqa: PLR2004


def _bar(
    at: int, count: int, bars: int, most: int, title: str, *, class_: str = "main"
) -> Html | None:
    if not count:
        return None
    width = _WIDTH / bars
    height = max(1.0, _HEIGHT * count / most)
    return Html(
        element(
            "g",
            element("title", title),
            element(
                "rect",
                class_=class_,
                x=at * width + width * _GAP / 2,
                y=_HEIGHT - height,
                width=width * (1 - _GAP),
                height=height,
            ),
        )
    )


def _mark(part: float, title: str) -> Html:
    x = _WIDTH * part
    line = element("line", class_="mark", x1=x, x2=x, y1=0, y2=_HEIGHT)
    return element("g", element("title", title), line)


def _figure(above: str, bars: Content, ends: tuple[str, str]) -> Html:
    base = element("line", class_="base", x1=0, x2=_WIDTH, y1=_HEIGHT, y2=_HEIGHT)
    drawn = element(
        "svg",
        bars,
        base,
        viewBox=f"0 0 {_WIDTH:g} {_HEIGHT:g}",
        preserveAspectRatio="none",
        role="img",
        aria_label=above,
    )
    axis = [element("span", end) for end in ends]
    return element(
        "figure",
        element("p", above, class_="small soft above"),
        drawn,
        element("div", axis, class_="axis"),
    )
