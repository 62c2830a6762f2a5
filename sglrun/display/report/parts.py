"""Parts of a page: sections, figures, facts and tables."""

from collections.abc import Iterable, Sequence

from sglrun.display.report.markup import Content, Html, element
from sglrun.display.report.samples import Cut


def section(title: str, *content: Content, note: str = "") -> Html:
    """Return a section under *title*, with a note beside it."""
    small = element("small", note) if note else None
    return element("section", element("h2", title, small), *content)


def figures(pairs: Iterable[tuple[str, Content]], *, less: bool = False) -> Html:
    """Return figures with what each is, the most important ones larger."""
    return element(
        "dl",
        [
            element("div", element("dt", label), element("dd", value))
            for label, value in pairs
        ],
        class_="figures less" if less else "figures",
    )


def facts(pairs: Iterable[tuple[str, Content]]) -> Html:
    """Return facts, a line each, with what each is before it."""
    return element(
        "dl",
        [[element("dt", label), element("dd", value)] for label, value in pairs],
        class_="facts",
    )


def table(heads: Sequence[str], rows: Iterable[Sequence[Content]]) -> Html:
    """Return a table; columns whose head ends in a space hold text, others numbers."""
    kinds = [None if head.endswith(" ") else "n" for head in heads]
    head = [
        element("th", name.strip(), class_=kind, scope="col")
        for name, kind in zip(heads, kinds, strict=True)
    ]
    body = [
        element(
            "tr", [_cell(cell, kind) for cell, kind in zip(row, kinds, strict=True)]
        )
        for row in rows
    ]
    whole = element(
        "table", element("thead", element("tr", head)), element("tbody", body)
    )
    return element("div", whole, class_="scroll")


def _cell(content: Content, kind: str | None) -> Html:
    return element("td", content, class_=kind)


def cut_text(cut: Cut) -> Html:
    """Return a text that may be cut, with how much is missing."""
    more = (
        element("span", f" … {cut.more:,} more characters", class_="soft small")
        if cut.more
        else None
    )
    return element("span", text(cut.text), more)


def text(words: str) -> Html:
    """Return *words* with their line breaks, apart from what stands around them."""
    return element("span", words.strip(), class_="text", dir="auto")


def more_words(shown: int, whole: int) -> str:
    """Return that only some of *whole* are shown, if so."""
    return f"the first {shown:,} of {whole:,}" if whole > shown else ""
