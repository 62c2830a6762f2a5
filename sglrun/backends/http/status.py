"""The error that an HTTP answer stands for: its class, message and waiting time.

Rule: servers word their errors differently; only this module knows the forms.
"""

import json
import re
from collections.abc import Mapping

from sglrun.backends.http.quota import retry_after_s
from sglrun.errors import (
    AuthenticationError,
    BackendError,
    BackendTimeoutError,
    BackendUnavailableError,
    BadRequestError,
    ModelNotFoundError,
    RateLimitError,
    UnsupportedFeatureError,
)

SHOWN_BYTES = 200

_BY_STATUS: Mapping[int, type[BackendError]] = {
    400: BadRequestError,
    401: AuthenticationError,
    402: AuthenticationError,
    403: AuthenticationError,
    404: BadRequestError,
    408: BackendTimeoutError,
    # OpenAI's own client tries a conflict again: it is a lock that was not free.
    409: BackendUnavailableError,
    425: BackendUnavailableError,
    429: RateLimitError,
    501: BadRequestError,
}

_ADVICE: Mapping[int, str] = {
    401: "check the key (--api-key-env or --api-key-command says where it is)",
    402: "the account has no credit left",
    403: "the key is not allowed to do this",
    404: "check the URL (an OpenAI-shaped server is usually at .../v1)",
    405: "check the URL (an OpenAI-shaped server is usually at .../v1)",
    413: "the request is too large for the server or a proxy before it",
    429: "lower --num-threads or --max-in-flight",
}

# The quota of an account does not come back by waiting a moment.
_USED_UP = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
_UNKNOWN_MODEL = frozenset({"model_not_found", "model_not_exist"})
_WRONG_ADDRESS = frozenset({301, 302, 303, 307, 308, 404, 405})


def error_of_answer(
    *, asked: str, status: int, headers: Mapping[str, str], body: bytes
) -> BackendError:
    """Return the error for an answer whose status is not 200.

    Args:
        asked: what was asked, as method and URL.
        status: the status of the answer.
        headers: its headers; the mapping does not mind case.
        body: its body, or the beginning of it.
    """
    code, said = read_error(body)
    if 300 <= status < 400:  # noqa: PLR2004 - HTTP's redirections
        moved = headers.get("Location", "unknown")
        said = f"the address is {moved!r} now; give that one with --url"
    cls = _class_of(status, code, said)
    advice = "" if cls is ModelNotFoundError else _ADVICE.get(status, "")
    error = cls(
        f"{asked} answered {status}: {said or 'no message'}"
        + (f"; {advice}" if advice else ""),
        http_status=status,
        retry_after_s=retry_after_s(headers, limited=cls is RateLimitError),
    )
    if code in _USED_UP:
        error.retryable, error.fatal = False, True
    if cls is BadRequestError and status in _WRONG_ADDRESS:
        error.fatal = True
    return error


def _class_of(status: int, code: str, said: str) -> type[BackendError]:
    names_model = status == 404 and re.search(r"\bmodels?\b", said, re.IGNORECASE)  # noqa: PLR2004
    if code in _UNKNOWN_MODEL or names_model:
        return ModelNotFoundError
    if status == 400 and re.search(r"\bprefill", said, re.IGNORECASE):  # noqa: PLR2004
        # Newer models take no begun answer, and only their answer tells which.
        return UnsupportedFeatureError
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    return BackendUnavailableError if status >= 500 else BadRequestError  # noqa: PLR2004


def read_error(body: bytes) -> tuple[str, str]:
    """Return the code and the message in the body of an error.

    Known are ``{"error": {"code", "message"}}``, ``{"error": "text"}``, ``{"detail"}``,
    ``{"message"}``, ``{"object": "error", ...}``, these in a list, and plain text.
    """
    text = body.decode("utf-8", "replace").strip()
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        return "", _page_title(text) or text[:SHOWN_BYTES]
    code, said = message_in(given)
    return code, said or text[:SHOWN_BYTES]


def message_in(given: object) -> tuple[str, str]:
    """Return the code and the message in an error that is JSON; empty if absent."""
    if isinstance(given, list) and given:
        return message_in(given[0])
    if isinstance(given, str):
        return "", given
    if not isinstance(given, Mapping):
        return "", ""
    code = str(given.get("code") or given.get("type") or "")
    for key in ("error", "message", "detail", "msg", "errors"):
        inner_code, said = message_in(given.get(key))
        if said:
            return inner_code or code, said
    return code, ""


def _page_title(text: str) -> str:
    if not text.lstrip().startswith("<"):
        return ""
    title = re.search(r"<title[^>]*>(.*?)</title>", text, re.IGNORECASE | re.DOTALL)
    return f"an HTML page{f' ({title[1].strip()})' if title else ''}"
