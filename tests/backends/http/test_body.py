"""The body of an HTTP answer."""

import io
import time

import pytest
from urllib3 import HTTPResponse

from sglrun.backends.http.body import Body
from sglrun.errors import BackendTimeoutError


def body(data: bytes, *, left_s: float) -> Body:
    return Body(
        raw=HTTPResponse(body=io.BytesIO(data), preload_content=False),
        asked="GET http://h/",
        deadline=time.monotonic() + left_s,
        idle_s=1.0,
        size_limit=100,
    )


def test_a_body_is_read_whole() -> None:
    """All bytes come, up to the limit exactly."""
    assert body(b"x" * 100, left_s=9).whole() == b"x" * 100


def test_a_deadline_that_has_passed_ends_the_reading() -> None:
    """Nothing is read after the deadline, and the error says how much had come."""
    with pytest.raises(BackendTimeoutError, match=r"GET http://h/ .* 0 bytes came"):
        body(b"x", left_s=-1).whole()
