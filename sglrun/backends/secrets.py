"""Secrets: texts that must not be written, and how they are taken out of what is.

Rule: the only module that knows which texts these are, and in which forms they come.
"""

import base64
import binascii
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import parse_qsl, quote, unquote, urlsplit

MASK = "***"

_SHORTEST = 4
_SHORTEST_IN_DATA = 8
_SECRET_NAME = re.compile(
    r"auth|key|token|secret|cookie|passw|credential|session|sig", re.IGNORECASE
)
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)


class Secrets:
    """Texts that must not be written; safe from any thread.

    They are found as they are, percent-encoded, in base64 and as JSON spells them.
    Texts of less than 4 characters are let through, as a stand-in for a key may be.
    """

    def __init__(self, texts: Iterable[str] = ()) -> None:
        """Know *texts*."""
        self.texts: frozenset[str] = frozenset()
        # The longest first, as one may be a part of another.
        self._forms: tuple[str, ...] = ()
        self._forms_in_data: tuple[str, ...] = ()
        self.add(texts)

    def add(self, texts: Iterable[str]) -> None:
        """Know *texts*, too."""
        self.texts |= {text for text in texts if len(text) >= _SHORTEST}
        in_data = {text for text in self.texts if len(text) >= _SHORTEST_IN_DATA}
        self._forms = _ordered(self.texts)
        self._forms_in_data = _ordered(in_data)

    def redacted(self, text: str) -> str:
        """Return *text*, which is words of ours or of others, without secrets."""
        return _without(text, self._forms)

    def redacted_bytes(self, content: bytes) -> bytes:
        """Return *content*, which is such words in UTF-8, without secrets."""
        text = content.decode("utf-8", "surrogateescape")
        return self.redacted(text).encode("utf-8", "surrogateescape")

    def redacted_json(self, text: str) -> str:
        """Return JSON, which is data, without secrets; it stays JSON.

        Data is somebody's: a secret of less than 8 characters, which may be a word as
        any other, is let through, and so is a number.
        """
        if not self.are_in(text):
            return text
        return _STRING.sub(self._redacted_string, text)

    def are_in(self, text: str) -> bool:
        """Return whether data has one of them."""
        return any(form in text for form in self._forms_in_data)

    def _redacted_string(self, found: re.Match[str]) -> str:
        value = json.loads(found[0])
        clean = _without(value, self._forms_in_data)
        return found[0] if clean == value else json.dumps(clean, ensure_ascii=False)


def secret_texts(
    *urls: str, api_key: str = "", headers: Mapping[str, str]
) -> Iterator[str]:
    """Yield the texts of addresses, a key and headers that must not be written."""
    yield api_key.strip()
    for url in urls:
        yield from url_secrets(url)
    for name, value in headers.items():
        if _SECRET_NAME.search(name):
            yield from _header_secrets(value)


def url_secrets(url: str) -> Iterator[str]:
    """Yield what of *url* must not be written.

    That is its password, or a name without one, and what a query calls a key.
    """
    try:
        parts = urlsplit(url)
        user, password = parts.username, parts.password
    except ValueError:  # no address at all
        return
    for name, value in parse_qsl(parts.query):
        if _SECRET_NAME.search(name):
            yield value
    if password:
        yield password
        yield f"{user}:{password}"
        yield unquote(f"{user}:{password}")
    elif user:
        yield user


def without_password(url: str) -> str:
    """Return *url* without name, password and query, if it is an address at all."""
    if "//" not in url:
        return url
    url = url.partition("?")[0]
    shown = re.sub(r"//[^/#]*@", "//", url)
    try:
        _ = urlsplit(shown).port
    except ValueError:  # the password has a slash in it, as it cannot
        return re.sub(r"//.*@", "//", url)
    return shown


def _header_secrets(value: str) -> Iterator[str]:
    yield value
    words = [word.partition("=")[2] or word for word in re.split(r"[\s;,]+", value)]
    if len(words) > 1:  # "Bearer KEY", "name=value; name=value"
        yield from words[1:] if words[0].isalpha() else words
    if words[0].lower() == "basic":
        try:
            login = base64.b64decode(words[-1], validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            return
        yield login
        yield login.partition(":")[2]


def _ordered(texts: Iterable[str]) -> tuple[str, ...]:
    forms = {form for text in texts for form in _forms(text)}
    return tuple(sorted(forms, key=lambda form: (-len(form), form)))


def _forms(text: str) -> Iterator[str]:
    """Yield *text* as it may be written."""
    for plain in {text, unquote(text) or text}:
        packed = plain.encode("utf-8", "surrogatepass")
        yield plain
        yield quote(packed, safe="")
        yield base64.b64encode(packed).decode().rstrip("=")
        yield base64.urlsafe_b64encode(packed).decode().rstrip("=")
        for ascii_only in (True, False):
            yield json.dumps(plain, ensure_ascii=ascii_only)[1:-1]


def _without(text: str, forms: Iterable[str]) -> str:
    for form in forms:
        if form in text:
            text = text.replace(form, MASK)
    return text
