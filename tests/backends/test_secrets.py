"""Secrets, taken out of what is written."""

import base64
import json
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sglrun.backends.secrets import (
    MASK,
    Secrets,
    secret_texts,
    url_secrets,
    without_password,
)

KEY = 'sk-p/+ä"\\-0123456789'


@pytest.mark.parametrize(
    "written",
    [
        KEY,
        quote(KEY, safe=""),
        base64.b64encode(KEY.encode()).decode(),
        base64.urlsafe_b64encode(KEY.encode()).decode(),
        json.dumps(KEY),
        json.dumps(KEY, ensure_ascii=False),
        f"Bearer {KEY}",
        f"{KEY}{KEY}",
    ],
)
def test_a_secret_is_found_in_every_form(written: str) -> None:
    """As it is, percent-encoded, in base64 or as JSON spells it: it is not there."""
    clean = Secrets([KEY]).redacted(f"before {written} after")

    assert "0123456789" not in clean
    assert "MDEyMzQ1Njc4" not in clean
    assert clean.startswith("before ")
    assert clean.endswith(" after")
    assert MASK in clean


def test_bytes_stay_as_they_are() -> None:
    """What is no UTF-8 stays beside what is taken out."""
    content = b"\xff" + KEY.encode() + b"\xed\xa0\x80"

    assert Secrets([KEY]).redacted_bytes(content) == b"\xff***\xed\xa0\x80"


def test_one_secret_in_another() -> None:
    """The longer one is taken out first, so that nothing of it is left."""
    secrets = Secrets(["long-key", "a-long-key-0815"])

    assert secrets.redacted("x a-long-key-0815 x long-key x") == "x *** x *** x"


def test_secrets_come_to_be_known() -> None:
    """What is added later is taken out from then on."""
    secrets = Secrets()
    before = secrets.redacted("the key-of-later")
    secrets.add(["key-of-later"])

    assert before == "the key-of-later"
    assert secrets.redacted("the key-of-later") == "the ***"


@pytest.mark.parametrize("short", ["", "x", "abc"])
def test_a_stand_in_is_no_secret(short: str) -> None:
    """A key of a letter or two does no harm to what is said."""
    text = "x abc"

    assert Secrets([short]).redacted(text) == text


@pytest.mark.parametrize("word", ["x", "EMPTY", "secret"])
def test_a_short_secret_does_no_harm_to_data(word: str) -> None:
    """Words that stand for a key where none is needed stay in results."""
    text = json.dumps({word: f"a {word} b"})

    assert Secrets([word]).redacted_json(text) == text


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=8,
    ),
    st.text(min_size=8, max_size=12),
    st.sampled_from(["ascii", "utf-8"]),
)
@example({"a": 123456789012, "b": "123456789012"}, "123456789012", "ascii")
@example({"a": ["x\\u0041bcdefgh"]}, "u0041bcd", "ascii")
@example({"a": '", "b": "'}, '", "b": "', "utf-8")
def test_json_stays_json(value: object, secret: str, encoding: str) -> None:
    """Data without a secret is JSON, and no text in it has the secret."""
    ascii_only = encoding == "ascii"
    text = json.dumps({"v": value, "w": f"a{secret}b"}, ensure_ascii=ascii_only)
    clean = json.loads(Secrets([secret]).redacted_json(text))

    assert secret not in clean["w"]
    assert MASK in clean["w"]


def test_numbers_of_data_stay() -> None:
    """A number is no text, whichever digits a password has."""
    text = '{"a": 20240101, "b": "20240101", "c": 1202401011.50}'

    assert Secrets(["20240101"]).redacted_json(text) == (
        '{"a": 20240101, "b": "***", "c": 1202401011.50}'
    )


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("http://user:pass-word@h/v1", {"pass-word", "user:pass-word"}),
        ("http://user:p%40ss@h", {"p%40ss", "user:p%40ss", "user:p@ss"}),
        ("http://a-token@h", {"a-token"}),
        ("http://h:8000/v1", set()),
        ("http://[h", set()),
        ("", set()),
    ],
)
def test_what_is_secret_of_an_address(url: str, found: set[str]) -> None:
    """A password is, with its name too, as basic authentication has it."""
    assert set(url_secrets(url)) == found


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://user:pass@h:80/v1", "http://h:80/v1"),
        ("http://user@h", "http://h"),
        ("http://h/a@b", "http://h/a@b"),
        ("http://user:pa/ss@h:80/v1", "http://h:80/v1"),
        ("http://user:p@ss@h", "http://h"),
        ("http://[h", "http://[h"),
        ("no address", "no address"),
    ],
)
def test_an_address_without_its_password(url: str, shown: str) -> None:
    """Whatever stands before the host is not shown."""
    assert without_password(url) == shown


@pytest.mark.parametrize(
    ("name", "value", "written"),
    [
        ("Authorization", "Bearer sk-0123456", "sk-0123456"),
        ("authorization", "sk-0123456", "sk-0123456"),
        (
            "Proxy-Authorization",
            f"Basic {base64.b64encode(b'me:pass-word').decode()}",
            "pass-word",
        ),
        ("api-key", "sk-0123456", "sk-0123456"),
        ("Ocp-Apim-Subscription-Key", "sk-0123456", "sk-0123456"),
        ("Cookie", "a=b; session=s-012345678", "s-012345678"),
    ],
)
def test_what_is_secret_of_a_header(name: str, value: str, written: str) -> None:
    """The key itself is known, not only the whole value that it stands in."""
    secrets = Secrets(secret_texts(headers={name: value}))

    assert secrets.redacted(f"bad key: {written}.") == "bad key: ***."
    assert secrets.redacted(f"you sent {value}.") == "you sent ***."


def test_other_headers_are_no_secrets() -> None:
    """What a header of another name has may be a word of the results."""
    assert set(secret_texts(headers={"X-Team": "positive"})) <= {""}
