"""Server-sent events."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglrun.backends.http.sse import parse_events
from sglrun.errors import ResponseError


@given(
    st.lists(st.dictionaries(st.text(), st.text(), max_size=2), max_size=4),
    st.sampled_from([b"\n", b"\r\n"]),
    st.integers(1, 9),
)
def test_events_survive_any_cut(
    events: list[dict[str, str]], end: bytes, size: int
) -> None:
    """What was written is read, wherever the network cuts it."""
    data = b"".join(
        b": comment" + end + b"event: x" + end + b"data: " + one.encode() + end + end
        for one in [*(json.dumps(e, ensure_ascii=False) for e in events), "[DONE]"]
    )
    chunks = (data[at : at + size] for at in range(0, len(data), size))

    assert list(parse_events(chunks)) == events


@pytest.mark.parametrize(
    ("data", "events"),
    [
        (b'data: {"a":\ndata: 1}\n\n', [{"a": 1}]),
        (b'data:{"a": 1}\n\n\n\n', [{"a": 1}]),
        (b'data: {"a": 1}', [{"a": 1}]),
        (b'data: {"a": 1}\n\ndata: [DONE]', [{"a": 1}]),
        (b'data: [DONE]\n\ndata: {"a": 1}\n\n', []),
        (b"", []),
    ],
)
def test_odd_but_whole_streams_are_read(
    data: bytes, events: list[dict[str, int]]
) -> None:
    """Several data lines, missing spaces and missing ends do no harm."""
    assert list(parse_events([data])) == events


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'data: {"a": "\xff"}\n\n', "not UTF-8"),
        (b'data: {"a": \n\n', "not JSON"),
        (b"data: 7\n\n", "no object"),
    ],
)
def test_damaged_events_are_an_error(data: bytes, message: str) -> None:
    """What cannot be read is shown, and is no JSON error."""
    with pytest.raises(ResponseError, match=message):
        list(parse_events([data]))
