"""What headers say of limits, as services send them."""

from datetime import UTC, datetime, timedelta

import pytest
from requests.structures import CaseInsensitiveDict

from sglrun.backends.http.quota import Quota, retry_after_s, used_up_s


def later(seconds: float) -> str:
    """Return the moment in *seconds* as RFC 3339 spells it."""
    moment = datetime.now(UTC) + timedelta(seconds=seconds)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def openai(requests: str, tokens: str) -> dict[str, str]:
    return {
        "x-ratelimit-limit-requests": "60",
        "x-ratelimit-remaining-requests": requests,
        "x-ratelimit-reset-requests": "1s",
        "x-ratelimit-limit-tokens": "150000",
        "x-ratelimit-remaining-tokens": tokens,
        "x-ratelimit-reset-tokens": "6m0s",
    }


def anthropic(requests: str, output: str) -> dict[str, str]:
    return {
        "anthropic-ratelimit-requests-limit": "50",
        "anthropic-ratelimit-requests-remaining": requests,
        "anthropic-ratelimit-requests-reset": later(200),
        "anthropic-ratelimit-output-tokens-limit": "8000",
        "anthropic-ratelimit-output-tokens-remaining": output,
        "anthropic-ratelimit-output-tokens-reset": later(400),
    }


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        (openai("59", "149984"), None),
        (openai("0", "149984"), 1.0),
        (openai("59", "0"), 360.0),
        (openai("0", "0"), 360.0),
        ({"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "30"}, 30.0),
        ({"RateLimit-Remaining": "0", "RateLimit-Reset": "30"}, 30.0),
        ({"RateLimitBySize-Remaining": "0", "RateLimitBySize-Reset": "7"}, 7.0),
        ({"RateLimit": '"burst";r=9;t=1, "day";r=0;t=80'}, 80.0),
        ({"RateLimit": '"burst";r=9;t=1'}, None),
        ({"X-RateLimit-Remaining": "0"}, None),
        ({"X-RateLimit-Remaining": "none", "X-RateLimit-Reset": "3"}, None),
        ({"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "soon"}, None),
    ],
)
def test_a_limit_that_is_used_up_is_read(
    headers: dict[str, str], seconds: float | None
) -> None:
    """The longest wait of the limits that have nothing left counts."""
    assert used_up_s(CaseInsensitiveDict(headers)) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("requests", "output", "seconds"),
    [("49", "8000", None), ("0", "8000", 200.0), ("0", "0", 400.0)],
)
def test_a_limit_until_a_moment_is_read(
    requests: str, output: str, seconds: float | None
) -> None:
    """The wait is counted from now."""
    headers = CaseInsensitiveDict(anthropic(requests, output))

    assert used_up_s(headers) == pytest.approx(seconds, abs=60)


@pytest.mark.parametrize(
    ("reset", "seconds"),
    [
        ("6m0s", 360.0),
        ("12ms", 0.012),
        ("1h2m3.5s", 3723.5),
        ("59.70s", 59.7),
        ("850µs", 0.00085),
        ("1.5", 1.5),
        ("inf", None),
        ("nan", None),
        ("1s or so", None),
    ],
)
def test_every_spelling_of_a_time_is_read(reset: str, seconds: float | None) -> None:
    """Durations, seconds and fractions are understood, and nothing else guessed."""
    headers = {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": reset}

    assert used_up_s(CaseInsensitiveDict(headers)) == pytest.approx(seconds)


def test_the_limits_of_a_refusal_are_a_hint() -> None:
    """A 429 without Retry-After waits for the limit that has nothing left."""
    headers = CaseInsensitiveDict(anthropic("0", "8000"))

    assert retry_after_s(headers, limited=True) == pytest.approx(200, abs=60)
    assert retry_after_s(headers, limited=False) is None


def test_a_quota_is_over_when_its_time_is() -> None:
    """What was used up is there again after the time that was told."""
    now = 100.0
    quota = Quota(lambda: now)
    quota.note(openai("0", "5"))
    quota.note(openai("5", "5"))

    assert quota.pause_s == 1.0

    now = 101.5

    assert quota.pause_s == 0.0
