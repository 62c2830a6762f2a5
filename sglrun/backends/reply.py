"""A reply: JSON from a server, read as what the protocol says or refused by name."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence

from sglrun.backends.http.status import message_in
from sglrun.errors import (
    BackendError,
    BackendUnavailableError,
    BadRequestError,
    RateLimitError,
    ResponseError,
)
from sglrun.lang.choices import TokenLogprob
from sglrun.lang.sampling import SamplingParams

_SHOWN = 200


def an_object(given: object, what: str) -> Mapping[str, object]:
    """Return *given* if it is a JSON object.

    Raises:
        ResponseError: it is not; *what* names its place.
    """
    if isinstance(given, dict):
        return given
    raise ResponseError(f"{what} is no JSON object: {_shown(given)}")


def a_list(given: object, what: str) -> Sequence[object]:
    """Return *given* if it is a JSON array.

    Raises:
        ResponseError: it is not; *what* names its place.
    """
    if isinstance(given, list):
        return given
    raise ResponseError(f"{what} is no JSON array: {_shown(given)}")


def objects(given: object, what: str) -> Sequence[Mapping[str, object]]:
    """Return *given* if it is an array of objects; raises as ``an_object``."""
    return [an_object(item, what) for item in a_list(given, what)]


def an_optional_object(given: object) -> Mapping[str, object]:
    """Return *given* if it is a JSON object, else an empty one."""
    return given if isinstance(given, dict) else {}


def a_text(given: object, what: str) -> str:
    """Return *given* if it is a string.

    Raises:
        ResponseError: it is not; *what* names its place.
    """
    if isinstance(given, str):
        return given
    raise ResponseError(f"{what} is no text: {_shown(given)}")


def a_count(given: object) -> int:
    """Return *given* if it is a whole number, else 0: servers leave counts out."""
    return given if isinstance(given, int) and not isinstance(given, bool) else 0


def a_logprob(given: object) -> float:
    """Return a log-probability; a null, which has nothing before it, counts as 0."""
    return float(given) if isinstance(given, int | float) else 0.0


def token_logprob(given: object) -> TokenLogprob:
    """Return SGLang's triple of log-probability, token id and text.

    Raises:
        ResponseError: it is none.
    """
    match given:
        case [float() | int() | None as logprob, int(token_id), *rest]:
            text = rest[0] if rest and isinstance(rest[0], str) else ""
            return TokenLogprob(a_logprob(logprob), token_id, text)
        case _:
            raise ResponseError(f"a token's log-probability is {_shown(given)}")


def error_of_event(event: Mapping[str, object], asked: str) -> BackendError:
    """Return the error that an event of a stream reports."""
    code, said = message_in(event)
    status = int(code) if code.isdigit() else None
    shown = said or _shown(event)
    return error_of_status(status, f"{asked} broke off: {shown}")


def error_of_status(status: int | None, message: str) -> BackendError:
    """Return the error of a generation that a server gave up, by its status."""
    if status == 429:  # noqa: PLR2004 - HTTP's number
        return RateLimitError(message, http_status=status)
    if status is not None and 400 <= status < 500:  # noqa: PLR2004 - HTTP's class
        return BadRequestError(message, http_status=status)
    return BackendUnavailableError(message, http_status=status)


def check_constraint(sampling: SamplingParams, texts: Iterable[str]) -> None:
    """Check whole generations against what they were to be held to.

    Servers answer 200 with free text where they do not know a constraint.

    Args:
        sampling: what was asked.
        texts: the generations that ended by themselves, not at a limit or stop string.

    Raises:
        ResponseError: one of them does not fit.
    """
    for text in texts:
        if sampling.regex is not None and not _matches(sampling.regex, text):
            raise _ignored(f"the regex {sampling.regex!r}", text)
        if sampling.json_schema is not None and not _is_json(text):
            raise _ignored("the json_schema", text)


def _ignored(constraint: str, text: str) -> ResponseError:
    error = ResponseError(
        f"the server ignored {constraint}: it wrote {text[:_SHOWN]!r} "
        "(use a server that can hold a generation to it)"
    )
    error.retryable = False
    return error


def _matches(pattern: str, text: str) -> bool:
    # Engines let a dot match a line end, so this must not be stricter.
    return re.fullmatch(pattern, text, re.DOTALL) is not None


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _shown(given: object) -> str:
    return repr(given)[:_SHOWN]
