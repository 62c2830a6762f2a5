"""Markup: HTML made of elements and texts, where no text can become an element.

Text reads as it was written. What would not be seen, or would make a page lie, is
spelled out: control characters, halves of surrogate pairs, and what turns the direction
of the text around it.
"""

import re
from collections.abc import Iterable
from html import escape


class Html(str):
    """HTML that may stand in a page as it is."""

    __slots__ = ()


Content = str | int | Html | Iterable["Content"] | None
"""What stands in an element: texts, elements, or several; ``None`` is nothing."""

_VOID = frozenset({"br", "meta", "rect", "line", "path", "circle"})
# C0 but tab and newline, DEL, C1, bidirectional embeddings and isolates, surrogates.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_PICTURES = 0x2400
_LAST_PICTURE, _DELETE = 0x1F, 0x7F


def visible(text: str) -> str:
    """Return *text* with what cannot be seen spelled out."""
    return _UNSEEN.sub(lambda found: _spelled(ord(found[0])), text)


def element(name: str, *content: Content, **attributes: str | float | None) -> Html:
    """Return an element; a value of ``None`` is no attribute.

    Names of attributes end in ``_`` where Python has the word, and have ``_`` for
    ``-``.
    """
    said = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_attribute(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Html(f"<{name}{said}>" if name in ("br", "meta") else f"<{name}{said}/>")
    return Html(f"<{name}{said}>{joined(content)}</{name}>")


def joined(content: Content) -> Html:
    """Return *content* as HTML."""
    if content is None:
        return Html()
    if isinstance(content, Html):
        return content
    if isinstance(content, str | int):
        return Html(escape(visible(str(content))))
    return Html("".join(map(joined, content)))


def _attribute(value: str | float) -> str:
    return f"{value:.2f}" if isinstance(value, float) else escape(visible(str(value)))


def _spelled(code: int) -> str:
    if code <= _LAST_PICTURE:
        return chr(_PICTURES + code)
    if code == _DELETE:
        return "\u2421"
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"  # noqa: PLR2004 - a byte
