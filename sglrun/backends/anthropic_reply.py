"""Replies of Anthropic's Messages API: to a sample and usage, whole or streamed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sglrun.backends.base import OnText, Sample, Usage
from sglrun.backends.pieces import before_stop
from sglrun.backends.reply import (
    a_count,
    an_object,
    an_optional_object,
    error_of_event,
    objects,
)
from sglrun.errors import ResponseError

Object = Mapping[str, object]

_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
}


def parse_sample(
    reply: object, *, dropped: Iterable[str] = (), stops: tuple[str, ...] = ()
) -> Sample:
    """Return the sample in *reply*.

    Args:
        reply: the JSON that came.
        dropped: what is the prompt's where the text begins with it, one after the
            other.
        stops: stop strings that the API did not look for.

    Raises:
        BackendError: it is an error, or not what the protocol says.
    """
    whole = an_object(reply, "the reply")
    if whole.get("error"):
        raise error_of_event(whole, "the reply")
    blocks = objects(whole.get("content"), "content")
    text = _joined(blocks, "text")
    for piece in dropped:
        text = text.removeprefix(piece)
    text, here = before_stop(text, stops)
    word = str(whole.get("stop_reason") or "unknown")
    reason = "stop" if here is not None else _REASONS.get(word, word)
    matched = here if here is not None else whole.get("stop_sequence")
    told: dict[str, object] = {"type": reason}
    if matched is not None:
        told["matched"] = matched
    meta_info: dict[str, object] = {"finish_reason": told, "id": whole.get("id")}
    if thoughts := _joined(blocks, "thinking"):
        meta_info["reasoning_content"] = thoughts
    return Sample(text=text, finish_reason=reason, meta_info=meta_info)


def is_whole(sample: Sample) -> bool:
    """Tell whether a generation ended by itself."""
    reason = an_optional_object(sample.meta_info.get("finish_reason"))
    return sample.finish_reason == "stop" and "matched" not in reason


def parse_usage(reply: object) -> Usage:
    """Return what *reply* cost; tokens written to the cache and read from it count."""
    usage = an_optional_object(an_optional_object(reply).get("usage"))
    cached = a_count(usage.get("cache_read_input_tokens"))
    written = a_count(usage.get("cache_creation_input_tokens"))
    return Usage(
        requests=1,
        prompt_tokens=a_count(usage.get("input_tokens")) + cached + written,
        cached_tokens=cached,
        completion_tokens=a_count(usage.get("output_tokens")),
    )


def _joined(blocks: Iterable[Object], kind: str) -> str:
    return "".join(str(b.get(kind) or "") for b in blocks if b.get("type") == kind)


@dataclass(slots=True)
class _Streamed:
    """A reply that comes in pieces."""

    head: Object = field(default_factory=dict)
    end: dict[str, object] = field(default_factory=dict)
    usage: dict[str, object] = field(default_factory=dict)
    pieces: dict[str, list[str]] = field(default_factory=dict)
    ended: bool = False

    def add(self, event: Object) -> str:
        """Take *event*; return what it adds to the text."""
        # A gateway's own errors have no type.
        if event.get("error"):
            raise error_of_event(event, "the stream")
        match event.get("type"):
            case "message_start":
                self.head = an_optional_object(event.get("message"))
                self.usage |= an_optional_object(self.head.get("usage"))
            case "content_block_start":
                return self._take(an_optional_object(event.get("content_block")))
            case "content_block_delta":
                return self._take(an_optional_object(event.get("delta")))
            case "message_delta":
                self.end |= an_optional_object(event.get("delta"))
                self.usage |= an_optional_object(event.get("usage"))
            case "message_stop":
                self.ended = True
            case _:
                pass
        return ""

    def _take(self, part: Object) -> str:
        for kind in ("text", "thinking"):
            if isinstance(piece := part.get(kind), str):
                self.pieces.setdefault(kind, []).append(piece)
                return piece if kind == "text" else ""
        return ""

    def whole(self) -> Object:
        """Return the reply as it would have come at once."""
        texts = {kind: "".join(pieces) for kind, pieces in self.pieces.items()}
        if not self.ended:
            after = texts.get("text", "")[-60:]
            raise ResponseError(f"the stream ended in the middle, after {after!r}")
        content = [{"type": kind, kind: text} for kind, text in texts.items()]
        return {**self.head, **self.end, "content": content, "usage": self.usage}


def assemble(events: Iterable[Object], on_text: OnText) -> Object:
    """Return the whole reply that *events* bring in pieces.

    Raises:
        BackendError: an event reports an error, or the stream ends in the middle.
    """
    streamed = _Streamed()
    for event in events:
        if piece := streamed.add(event):
            on_text(piece)
    return streamed.whole()
