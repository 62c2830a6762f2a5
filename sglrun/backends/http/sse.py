"""Server-sent events: bytes as they come, to the JSON objects they carry."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping

from sglrun.errors import ResponseError

_SHOWN_CHARACTERS = 200
_END = "[DONE]"


def parse_events(
    chunks: Iterable[bytes], redacted: Callable[[str], str] = str
) -> Iterator[Mapping[str, object]]:
    """Yield the objects of a stream until it ends or says ``[DONE]``.

    Args:
        chunks: the stream.
        redacted: takes out of a text what an error must not show.

    Raises:
        ResponseError: an event is not a JSON object, or not UTF-8.
    """
    data: list[str] = []
    for line in _lines(chunks):
        if line:
            name, _, value = line.partition(":")
            if name == "data":
                data.append(value.removeprefix(" "))
            continue
        if data:
            text = "\n".join(data)
            data.clear()
            if text.strip() == _END:
                return
            yield _object(text, redacted)
    # A last event without its blank line still counts where it is whole.
    if data and data != [_END]:
        yield _object("\n".join(data), redacted)


def _lines(chunks: Iterable[bytes]) -> Iterator[str]:
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield _text(line)
    if rest:
        yield _text(rest)


def _text(line: bytes) -> str:
    try:
        return line.removesuffix(b"\r").decode("utf-8")
    except UnicodeDecodeError as exc:
        raise ResponseError(
            f"an event of the stream is not UTF-8: byte {exc.start + 1} of its line"
        ) from exc


def _object(text: str, redacted: Callable[[str], str]) -> Mapping[str, object]:
    try:
        event = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise _no_event(text, "is not JSON", redacted) from exc
    if not isinstance(event, dict):
        raise _no_event(text, "is no object", redacted)
    return event


def _no_event(text: str, what: str, redacted: Callable[[str], str]) -> ResponseError:
    shown = redacted(text)[:_SHOWN_CHARACTERS]
    return ResponseError(f"an event of the stream {what}: {shown!r}")
