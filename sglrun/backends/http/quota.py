"""The quota: what the headers of an answer say is left, and when there is more.

Rule: servers spell this differently; only this module knows the spellings.
"""

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

# What is left, and when all of it is back; OpenAI's, Anthropic's, GitHub's, Mistral's,
# Together's and the drafts of the IETF before its eighth.
_PAIRS = (
    ("x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
    ("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
    ("anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset"),
    ("anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset"),
    (
        "anthropic-ratelimit-input-tokens-remaining",
        "anthropic-ratelimit-input-tokens-reset",
    ),
    (
        "anthropic-ratelimit-output-tokens-remaining",
        "anthropic-ratelimit-output-tokens-reset",
    ),
    ("x-ratelimit-remaining", "x-ratelimit-reset"),
    ("x-tokenlimit-remaining", "x-tokenlimit-reset"),
    ("ratelimit-remaining", "ratelimit-reset"),
    ("ratelimitbysize-remaining", "ratelimitbysize-reset"),
)
# Since its eighth draft, the IETF has one field: ``"name";r=50;t=30, ...``.
_FIELD = "ratelimit"
_MEMBER = re.compile(r";\s*([rt])\s*=\s*(\d+)")

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|us|µs|ns|s|m|h|d)")
_SECONDS: Mapping[str, float] = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "ms": 0.001,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
    "d": 86400.0,
}


class Quota:
    """How long a server wants no more requests; safe from any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Know of no limit; *clock* gives seconds that only go up."""
        self._clock = clock
        self._lock = threading.Lock()
        self._until = clock()

    @property
    def pause_s(self) -> float:
        """Seconds from now; 0 if a request may be sent."""
        return max(0.0, self._until - self._clock())

    def note(self, headers: Mapping[str, str]) -> None:
        """Take what the *headers* of a good answer say is left."""
        seconds = used_up_s(headers)
        if seconds:
            with self._lock:
                self._until = max(self._until, self._clock() + seconds)


def used_up_s(headers: Mapping[str, str]) -> float | None:
    """Return how long nothing is left of a limit; ``None`` if all have something.

    Args:
        headers: of the answer; the mapping does not mind case.
    """
    waits = [reset for left, reset in _limits(headers) if left == 0]
    return max((wait for wait in waits if wait is not None), default=None)


def retry_after_s(headers: Mapping[str, str], *, limited: bool) -> float | None:
    """Return how long the server asks to wait, in seconds.

    Args:
        headers: of the answer; the mapping does not mind case.
        limited: whether the answer is about a rate, so that its limits are read too.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    given = headers.get("retry-after")
    if given is not None:
        seconds = _number(given)
        return _until(given) if seconds is None else seconds
    if not limited:
        return None
    empty_s = used_up_s(headers)
    if empty_s is not None:
        return empty_s
    resets = [reset for _, reset in _limits(headers) if reset is not None]
    return min(resets, default=None)


def _limits(headers: Mapping[str, str]) -> Iterator[tuple[float | None, float | None]]:
    """Yield what is left of each limit, and in how many seconds it is whole again."""
    for remaining, reset in _PAIRS:
        given = headers.get(reset)
        if given is not None:
            yield _number(headers.get(remaining)), _reset_s(given)
    for item in (headers.get(_FIELD) or "").split(","):
        found = {name: float(value) for name, value in _MEMBER.findall(item)}
        if found:
            yield found.get("r"), found.get("t")


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return max(number, 0.0) if number < float("inf") else None


def _reset_s(text: str) -> float | None:
    """Return the seconds that *text* means: a number, a duration or a moment."""
    number = _number(text)
    if number is not None:
        now = datetime.now(UTC).timestamp()
        # Some count seconds from now, others name a moment since 1970 in s or ms.
        for scale in (1.0, 1000.0):
            if abs(number / scale - now) < _SECONDS["d"]:
                return max(number / scale - now, 0.0)
        return number
    if _DURATION.sub("", text.strip()) == "":
        parts = _DURATION.findall(text)
        return sum(float(n) * _SECONDS[unit] for n, unit in parts)
    return _until(text)


def _until(date: str) -> float | None:
    """Return the seconds to *date*, as HTTP or as RFC 3339 spells it."""
    try:
        moment = datetime.fromisoformat(date.strip())
    except ValueError:
        try:
            moment = parsedate_to_datetime(date)
        except ValueError:
            return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max((moment - datetime.now(UTC)).total_seconds(), 0.0)
