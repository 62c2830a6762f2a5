"""The page: whole, safe and true for whatever a run has written."""

import dataclasses
import random
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sglrun.backends.base import Usage
from sglrun.batch.past_run import LastRun, PastPrefix, PastRun
from sglrun.batch.recorded import Recorded
from sglrun.batch.results import ErrorInfo
from sglrun.batch.timeline import Times
from sglrun.display.report.error_kinds import shape
from sglrun.display.report.findings import Findings
from sglrun.display.report.markup import visible
from sglrun.display.report.page import MARK, render_page
from sglrun.display.report.subject import Subject

ANY = st.text(st.characters(exclude_categories=()), max_size=40)
VOID = {"meta", "rect", "line", "br"}
USAGE = Usage(requests=2, prompt_tokens=100, cached_tokens=80, completion_tokens=7)
LAST = LastRun(
    ok=90,
    failed=10,
    resumed=5,
    seconds=12.5,
    ended="2026-01-02T03:04:05+00:00",
    usage=Usage(requests=200, prompt_tokens=10_000, cached_tokens=8_000),
    prefix=PastPrefix(
        tokens=45, ended_by="argument 'q'", where="p.py:7", usage=Usage(requests=1)
    ),
    predicted_cached_tokens=9_000,
    saved_tokens=7_955,
    times=Times(span_s=2.0, ok=(40, 0, 50), failed=(0, 4, 6)),
)
RUN = PastRun(
    complete=True,
    alive=False,
    identity={"program": "ask", "model": "small", "backend": "local"},
    pid=7,
    started="2026-01-02T03:03:00+00:00",
    rows=105,
    command="sglrun batch p.py in.jsonl -o out.jsonl",
    last=LAST,
)


class Page(HTMLParser):
    """A page as a browser reads it; fails where elements do not close in order."""

    def __init__(self, page: bytes) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(page.decode("utf-8"))
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open an element."""
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Close the element that was opened last."""
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Take text but that of the style."""
        if "style" not in self.open:
            self.text += data + "\n"


def findings(*results: Recorded) -> Findings:
    found = Findings()
    for result in results:
        found.add(result)
    return found


def row(index: int = 0, **facts: object) -> Recorded:
    plain = Recorded(index=index, usage=USAGE, seconds=0.5)
    return dataclasses.replace(plain, **facts)  # type: ignore[arg-type]


def failed(index: int, message: str, where: str = "p.py:9") -> Recorded:
    error = ErrorInfo(type="ValueError", message=message, where=where)
    return row(index, error=error)


def page(*results: Recorded, **facts: object) -> Page:
    subject = Subject(name="out.jsonl", findings=findings(*results))
    return Page(
        render_page(dataclasses.replace(subject, **facts))  # type: ignore[arg-type]
    )


@settings(deadline=None)
@given(ANY, ANY, ANY)
def test_any_text_of_a_run_is_text_of_the_page(name: str, value: str, id_: str) -> None:
    """Whatever rows, variables and errors say, the page has no element more."""
    made = page(
        row(0, id=id_, output={name: value, "x": [value]}, given={name: value}),
        failed(1, value, where=name),
        name=name,
        run=dataclasses.replace(RUN, command=value, identity={name: value}),
    )

    assert made.tags.isdisjoint({"script", "link", "img", "iframe", "a", "form"})
    assert made.attributes.isdisjoint({"src", "href", "onclick", "onload"})
    assert visible(value).strip() in made.text


def test_a_page_needs_nothing_else() -> None:
    """No address, no script, and a policy that forbids both."""
    made = render_page(Subject(name="x", findings=findings(row()), run=RUN)).decode()

    assert "http:" not in made.replace('http-equiv="', "")
    assert "url(" not in made
    assert "default-src 'none'" in made
    assert MARK in made[:512]


def test_a_complete_run_is_told() -> None:
    """Outcome, speed, tokens, prefix, cost and command are on the page."""
    rows = [row(at, output={"label": "ab"[at % 2]}) for at in range(90)]
    rows += [failed(100 + at, f"no {at}") for at in range(10)]
    told = page(*rows, run=RUN, cost=1.25).text

    for words in (
        "90\n", "10\n", "Complete: every row of the input has a result.",
        "0.50 s", "8.0/s", "rows by time, up to 56 in each 2 s",
        "45 tokens, up to argument 'q' at p.py:7",
        "9,000 cached tokens, 90% of the prompts",
        "8,000 cached tokens, 80% of the prompts",
        "7,955 tokens: measured, less the one reading",
        "1.2500", "sglrun batch p.py in.jsonl -o out.jsonl",
        "label", "12 of 90, at random",
    ):  # fmt: skip
        assert words in told


@pytest.mark.parametrize(
    ("run", "total", "words"),
    [
        (None, None, "results without a manifest"),
        ({"complete": False, "alive": True}, 10, "under way, as process 7"),
        ({"complete": False}, 10, "Not complete: the run was interrupted."),
        ({"complete": False, "last": None}, None, "rows so far"),
    ],
)
def test_a_run_that_has_not_ended(
    run: dict[str, object] | None, total: int | None, words: str
) -> None:
    """What is there so far is told, and how many rows are left, if that is known."""
    past = None if run is None else dataclasses.replace(RUN, **run)  # type: ignore[arg-type]
    told = page(row(0), row(1), run=past, total=total).text

    assert words in told
    assert ("left" in told) is (total is not None)
    assert ("left\n8" in told) is (total is not None)


def test_errors_are_grouped() -> None:
    """Numbers and quoted texts make no other kind; the author's line does."""
    results = [failed(at, f"cannot parse 'x{at}' of {at}") for at in range(40)]
    results.append(failed(40, "cannot parse 'y' of 1", where="p.py:12"))
    found = findings(*results)
    kinds = list(found.errors.most_common())

    assert [(kind.count, kind.where) for kind in kinds] == [
        (40, "p.py:9"),
        (1, "p.py:12"),
    ]
    assert len(kinds[0].examples) == 3
    assert "40 rows" in page(*results).text


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("row 12 has 3 results", "row # has # results"),
        ("KeyError: 'answer'", "KeyError: #"),
        ("the model's 'a' doesn't", "the model's # doesn't"),
        ("at 0x7f00aa", "at #"),
    ],
)
def test_shapes(message: str, expected: str) -> None:
    """What varies from row to row is one sign."""
    assert shape(message) == expected


def test_shown_rows_are_bounded() -> None:
    """However many rows there are, a page stays small and says what is left out."""
    text = "word " * 5000
    results = [row(at, output={"text": text}, given={"q": text}) for at in range(400)]
    results += [failed(at, text) for at in range(400, 800)]
    made = render_page(Subject(name="x", findings=findings(*results)))

    assert len(made) < 400_000
    assert "the first 50 of 400" in Page(made).text
    assert "24,300 more characters" in Page(made).text


def test_the_slowest_rows_are_the_slowest() -> None:
    """The table of slow rows is the same in whatever order results come."""
    results = [row(at, seconds=float(at % 97)) for at in range(500)]
    shuffled = random.Random(1).sample(results, len(results))  # noqa: S311
    slowest = [each.seconds for each in findings(*shuffled).samples.slowest]

    assert slowest == sorted((r.seconds for r in results), reverse=True)[:15]


def test_no_rows_are_a_page_too() -> None:
    """An empty input gives an outcome and nothing else."""
    told = page(run=dataclasses.replace(RUN, last=None)).text

    assert "Complete" in told
    assert "Speed" not in told
