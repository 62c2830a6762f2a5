"""The error that an HTTP answer stands for."""

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from requests.structures import CaseInsensitiveDict

from sglrun.backends.http.quota import retry_after_s
from sglrun.backends.http.status import error_of_answer, read_error
from sglrun.errors import (
    AuthenticationError,
    BackendError,
    BackendTimeoutError,
    BackendUnavailableError,
    BadRequestError,
    ModelNotFoundError,
    RateLimitError,
)


def error(
    status: int, body: object = None, headers: dict[str, str] | None = None
) -> BackendError:
    return error_of_answer(
        asked="POST http://h/v1/x",
        status=status,
        headers=CaseInsensitiveDict(headers or {}),
        body=json.dumps(body).encode() if body is not None else b"",
    )


@pytest.mark.parametrize(
    ("status", "cls"),
    [
        (400, BadRequestError),
        (401, AuthenticationError),
        (402, AuthenticationError),
        (403, AuthenticationError),
        (404, BadRequestError),
        (405, BadRequestError),
        (408, BackendTimeoutError),
        (409, BackendUnavailableError),
        (413, BadRequestError),
        (418, BadRequestError),
        (425, BackendUnavailableError),
        (422, BadRequestError),
        (429, RateLimitError),
        (500, BackendUnavailableError),
        (501, BadRequestError),
        (502, BackendUnavailableError),
        (503, BackendUnavailableError),
        (529, BackendUnavailableError),
    ],
)
def test_a_status_has_its_class(status: int, cls: type[BackendError]) -> None:
    """Each status is one class, and the message says where, which and what."""
    found = error(status, {"error": {"message": "because"}})

    assert type(found) is cls
    assert found.http_status == status
    assert f"POST http://h/v1/x answered {status}: because" in str(found)


@pytest.mark.parametrize(
    ("body", "cls"),
    [
        ({"error": {"message": "The model `m` does not exist."}}, ModelNotFoundError),
        ({"error": {"message": "x", "code": "model_not_found"}}, ModelNotFoundError),
        ({"detail": "Not Found"}, BadRequestError),
    ],
)
def test_an_unknown_model_is_told_from_an_unknown_address(
    body: object, cls: type[BackendError]
) -> None:
    """A 404 that names the model is about the model; another is about the URL."""
    found = error(404, body)

    assert type(found) is cls
    assert found.fatal
    assert ("check the URL" in str(found)) == (cls is BadRequestError)


def test_a_moved_address_is_named() -> None:
    """A redirect is not followed, and its target is told."""
    found = error(308, None, {"Location": "https://h/v1/x"})

    assert "https://h/v1/x" in str(found)
    assert found.fatal


def test_a_used_up_quota_is_not_tried_again() -> None:
    """OpenAI's 429 for an empty account ends the run."""
    found = error(429, {"error": {"message": "pay", "code": "insufficient_quota"}})

    assert isinstance(found, RateLimitError)
    assert (found.retryable, found.fatal) == (False, True)


@pytest.mark.parametrize(
    ("body", "code", "said"),
    [
        (b'{"error": {"message": "m", "code": 400}}', "400", "m"),
        (b'{"error": "text"}', "", "text"),
        (b'{"detail": "d"}', "", "d"),
        (b'{"detail": [{"loc": ["body"], "msg": "missing"}]}', "", "missing"),
        (b'{"message": "m"}', "", "m"),
        (b'{"object": "error", "message": "m", "type": "T"}', "T", "m"),
        (b'{"error": {"error": {"message": "deep"}}}', "", "deep"),
        (b"Internal Server Error\n", "", "Internal Server Error"),
        (
            b"<html><title> 502 Bad </title></html>",
            "",
            "an HTML page (502 Bad)",
        ),
        (b"<!doctype html><p>", "", "an HTML page"),
        (b'{"strange": 1}', "", '{"strange": 1}'),
        (b"[" * 100_000, "", "[" * 200),
        (b"\xff", "", "\ufffd"),
        (b"", "", ""),
    ],
)
def test_every_form_of_error_body_is_read(body: bytes, code: str, said: str) -> None:
    """The message is found wherever a server puts it."""
    assert read_error(body) == (code, said)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"Retry-After": "0.5"}, 0.5),
        ({"Retry-After": "-3"}, 0.0),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After-Ms": "250", "Retry-After": "9"}, 0.25),
        ({"X-RateLimit-Reset-Requests": "1m30s"}, 90.0),
        ({"X-RateLimit-Reset-Tokens": "120ms"}, 0.12),
        (
            {
                "X-RateLimit-Reset-Requests": "1s",
                "X-RateLimit-Reset-Tokens": "5s",
                "X-RateLimit-Remaining-Tokens": "0",
            },
            5.0,
        ),
        ({"X-RateLimit-Reset": "30"}, 30.0),
        ({}, None),
    ],
)
def test_the_wait_is_read_from_any_header(
    headers: dict[str, str], seconds: float | None
) -> None:
    """Every way to say how long to wait is understood."""
    found = retry_after_s(CaseInsensitiveDict(headers), limited=True)

    assert found == pytest.approx(seconds)


def test_a_date_and_a_moment_are_waits() -> None:
    """Dates and moments since 1970 count from now, and a past one is no wait."""
    later = datetime.now(UTC) + timedelta(seconds=60)
    past = datetime.now(UTC) - timedelta(seconds=60)
    waits = [
        retry_after_s(CaseInsensitiveDict(headers), limited=True)
        for headers in (
            {"Retry-After": format_datetime(later, usegmt=True)},
            {"X-RateLimit-Reset": str(later.timestamp())},
            {"X-RateLimit-Reset": str(int(later.timestamp() * 1000))},
        )
    ]

    assert waits == pytest.approx([60.0] * 3, abs=5)
    assert retry_after_s(
        CaseInsensitiveDict({"Retry-After": format_datetime(past)}), limited=True
    ) == pytest.approx(0.0)


def test_limits_are_not_read_from_other_errors() -> None:
    """The headers about rates, which come with every answer, delay only a 429."""
    headers = {"X-RateLimit-Reset-Requests": "60s"}

    assert error(500, None, headers).retry_after_s is None
    assert error(429, None, headers).retry_after_s == pytest.approx(60.0)
    assert error(503, None, {"Retry-After": "2"}).retry_after_s == pytest.approx(2.0)
