"""Patterns in the engine's syntax."""

import re

import pytest

from sglrun.backends.local.pattern import engine_pattern
from sglrun.errors import BadRequestError, UnsupportedFeatureError
from sglrun.lang.constraints import REGEX_FLOAT, REGEX_INT, REGEX_STR, choices_regex


@pytest.mark.parametrize(
    ("pattern", "written"),
    [
        (r"abc", "(?-i:abc)"),
        (r"^a$|^b\Z", r"(?-i:(?:a|b))"),
        (r"a/b", r"(?-i:a\x{2F}b)"),
        (r"a.b", r"(?-i:a[^\n]b)"),
        (r"(?s)a.b", r"(?-i:a(?s:.)b)"),
        (r"(?i)a", "(?i:a)"),
        (r"(?i:a)b", "(?-i:(?i:a)b)"),
        (r"\w\W", r"(?-i:[\p{L}\p{N}_][[^\p{L}\p{N}_]])"),
        (r"(?a)\d\w", "(?-i:[0-9][a-zA-Z0-9_])"),
        (r"[^\s,]", r"(?-i:[^\s\x1c-\x1f\x{2C}])"),
        (r"(?ai)k_[^A-Z@]", r"(?-i:[kK]\x{5F}[^A-Za-z\x{40}])"),
        (r"(?ai)[X-c][^k]", r"(?-i:[X-cx-zA-C][^kK])"),
        (r"(?a)(?i:k)(?u:\d)", r"(?-i:(?:[kK])(?:[\d]))"),
        (r"(?ai)(?u:k)", r"(?-i:(?i:k))"),
        (r"(?i)k(?a:k)", r"(?i:k(?-i:[kK]))"),
        (r"^^a$\Z|\A^b$$", r"(?-i:(?:a|b))"),
        (r"^$", r"(?-i:)"),
        (r"[^a-c\]]", r"(?-i:[^a-c\x{5D}])"),
        (r"(?:a*b+c?){2,}?", "(?-i:(?:(?:a)*(?:b)+(?:c){0,1}){2,})"),
        (r"a{,3}", "(?-i:(?:a){0,3})"),
        (r"(?P<x>a)(b)", "(?-i:(?:a)(?:b))"),
        (r"", "(?-i:)"),
    ],
)
def test_a_pattern_is_written_anew(pattern: str, written: str) -> None:
    """What Python reads is written so that the engine reads the same."""
    assert engine_pattern(pattern) == written


@pytest.mark.parametrize(
    ("pattern", "what"),
    [
        (r"(?=a)b", "lookahead"),
        (r"(?<!a)b", "negative lookahead or lookbehind"),
        (r"(a)\1", "a reference to a group"),
        (r"(a)?(?(1)b|c)", "a condition"),
        (r"(?>a)b", "an atomic group"),
        (r"a++b", "a possessive"),
        (r"\ba", "a word boundary"),
        (r"a$b", r"\$ inside"),
        (r"(?:^a)+", r"\^ inside"),
        (r"a\Ab", r"\\A inside"),
        (r"$^", r"\$ inside"),
        ("\ud800", "a lone surrogate"),
    ],
)
def test_what_cannot_be_followed_is_refused_by_name(pattern: str, what: str) -> None:
    """A pattern that the engine cannot follow is refused, and the message says why."""
    with pytest.raises(UnsupportedFeatureError, match=what) as caught:
        engine_pattern(pattern)

    assert repr(pattern) in str(caught.value)


def test_what_is_no_pattern_is_refused() -> None:
    """A pattern that Python cannot read is an error of the request."""
    with pytest.raises(BadRequestError, match=r"'\(a'.*unterminated"):
        engine_pattern("(a")


@pytest.mark.parametrize(
    "pattern",
    [REGEX_INT, REGEX_FLOAT, REGEX_STR, choices_regex(["a b", "c|d", "é?"])],
)
def test_our_own_patterns_can_be_followed(pattern: str) -> None:
    """The patterns of dtypes and choices are among those that are understood."""
    re.compile(pattern)

    assert engine_pattern(pattern)
