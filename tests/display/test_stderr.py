"""The quiet stream, as what programs take for their stdout and stderr."""

import io
from collections.abc import Callable
from typing import BinaryIO

import pytest

from sglrun.display.stderr import QuietStream


@pytest.mark.parametrize(
    ("writes", "shown"),
    [
        ([b"caf\xc3\xa9"], "caf\u00e9"),
        ([b"caf\xc3", b"\xa9"], "caf\u00e9"),
        ([b"\xff"], "\\xff"),
        ([b"caf\xc3"], "caf\\xc3"),
        ([bytearray(b"a"), memoryview(b"b")], "ab"),
        ([b"a key"], "a ***"),
    ],
)
def test_bytes_are_shown_as_the_text_that_they_are(
    writes: list[bytes], shown: str
) -> None:
    """Bytes are decoded, across writes too, and redacted like any text."""
    text = io.StringIO()
    stream = QuietStream(text, redacted=lambda said: said.replace("key", "***"))
    written = [stream.buffer.write(data) for data in writes]
    stream.buffer.flush()

    assert written == [len(data) for data in writes]
    assert text.getvalue() == shown


@pytest.mark.parametrize(
    "taken", [lambda stream: stream.buffer, lambda stream: stream.detach()]
)
def test_a_wrapper_that_is_gone_closes_nothing(
    taken: Callable[[QuietStream], BinaryIO],
) -> None:
    """A stream can be wrapped anew, and what is written to each wrapper is shown."""
    text = io.StringIO()
    stream = QuietStream(text)
    for word in ("one ", "two "):
        wrapper = io.TextIOWrapper(taken(stream), encoding="utf-8")
        wrapper.write(word)
        wrapper.close()
    stream.buffer.write(b"three ")
    stream.write("four")

    assert text.getvalue() == "one two three four"


def test_bytes_that_cannot_be_written_are_dropped() -> None:
    """A closed, a full or a muted stream raises nothing for bytes either."""
    muted = io.StringIO()
    for stream in (QuietStream(None), QuietStream(muted, is_muted=lambda: True)):
        assert stream.buffer.write(b"lost") == len(b"lost")
        stream.buffer.flush()

    assert muted.getvalue() == ""


def test_a_stream_takes_any_configuration() -> None:
    """``reconfigure`` takes what Python's own stream takes, and changes nothing."""
    text = io.StringIO()
    stream = QuietStream(text)
    stream.reconfigure(encoding="ascii", errors="strict", line_buffering=True)
    stream.write("\u00e9")

    assert text.getvalue() == "\u00e9"
