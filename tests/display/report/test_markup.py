"""Markup: any text stands in a page as text, and nothing of it as an element."""

from html.parser import HTMLParser

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sglrun.display.report.markup import Html, element, joined, visible

ANY = st.text(st.characters(exclude_categories=()))


class Parsed(HTMLParser):
    """What a browser finds: elements and text."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        """Note text."""
        self.text += data

    def handle_comment(self, data: str) -> None:
        """Find what no text may become."""
        raise AssertionError(data)

    def handle_decl(self, decl: str) -> None:
        """Find what no text may become."""
        raise AssertionError(decl)

    def handle_pi(self, data: str) -> None:
        """Find what no text may become."""
        raise AssertionError(data)


@given(ANY)
@example("</p></script><script>alert(1)</script><!-- & &amp; &lt -->")
@example("\x00\r\x1b[31m\x85\u202eevil\u2066\ud800\U000e0001")
def test_text_parses_back_to_itself(text: str) -> None:
    """However it is written, text in a page is that text, seen."""
    page = element("p", text)
    page.encode("utf-8")
    found = Parsed(page)

    assert found.tags == ["p"]
    assert found.text == visible(text)


@given(ANY)
def test_an_attribute_parses_back_to_itself(text: str) -> None:
    """No value of an attribute ends it."""
    found = Parsed(element("p", "x", title=text))

    assert found.attributes == [("title", visible(text))]
    assert (found.tags, found.text) == (["p"], "x")


@given(st.text(st.characters(exclude_categories=("Cc", "Cs"))))
def test_what_can_be_seen_stays_as_it_is(text: str) -> None:
    """Only what cannot be seen, or turns other text around, is spelled out."""
    bidi = {chr(code) for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))}

    assert (visible(text) == text) is bidi.isdisjoint(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\tb\nc", "a\tb\nc"),
        ("\r\x00", "␍␀"),
        ("\u202e", "\\u202e"),
        ("\ud800", "\\ud800"),
    ],
)
def test_spelling(text: str, shown: str) -> None:
    """Control characters become their pictures, others their numbers."""
    assert visible(text) == shown


def test_elements_hold_elements() -> None:
    """Elements, texts, numbers and nothing stand in one another."""
    row = element("tr", [element("td", n, class_="n") for n in (1, 2)], None, "<")

    assert row == '<tr><td class="n">1</td><td class="n">2</td>&lt;</tr>'
    assert joined([Html("<br>"), 3]) == "<br>3"
    assert element("rect", stroke_width=0.5, id=None) == '<rect stroke-width="0.50"/>'
