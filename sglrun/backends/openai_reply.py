"""Replies in OpenAI's shape: to samples and usage, whole or from a stream."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sglrun.backends.base import Completion, OnText, Request, Sample, Usage
from sglrun.backends.pieces import after_prefix
from sglrun.backends.reply import (
    a_count,
    a_list,
    a_logprob,
    an_object,
    an_optional_object,
    check_constraint,
    error_of_event,
    objects,
)
from sglrun.errors import ResponseError
from sglrun.lang.sampling import SamplingParams

Object = Mapping[str, object]


def parse_completion(
    reply: object, request: Request, *, repeated: str = ""
) -> Completion:
    """Return the completion in *reply*.

    Args:
        reply: the JSON that came.
        request: what was asked.
        repeated: what the server repeats of the prompt before each text.

    Raises:
        ResponseError: it is not what the protocol says, or not what was asked.
    """
    whole = an_object(reply, "the reply")
    if whole.get("error"):
        raise error_of_event(whole, "the reply")
    choices = _in_order(whole)
    sampling = request.sampling
    if len(choices) != sampling.n:
        raise ResponseError(f"the server gave {len(choices)} of {sampling.n} choices")
    usage = parse_usage(whole)
    samples = tuple(_sample(choice, sampling, repeated) for choice in choices)
    check_constraint(
        sampling,
        [
            s.text
            for c, s in zip(choices, samples, strict=True)
            if _is_whole(c, sampling)
        ],
    )
    return Completion(samples=samples, usage=usage)


def parse_usage(reply: Object) -> Usage:
    """Return what *reply* cost; a count that is left out is 0."""
    usage = an_optional_object(reply.get("usage"))
    details = an_optional_object(usage.get("prompt_tokens_details"))
    cached = details.get("cached_tokens") or usage.get("prompt_cache_hit_tokens")
    return Usage(
        requests=1,
        prompt_tokens=a_count(usage.get("prompt_tokens")),
        cached_tokens=a_count(cached),
        completion_tokens=a_count(usage.get("completion_tokens")),
    )


def _in_order(reply: Object) -> Sequence[Object]:
    choices = objects(reply.get("choices"), "choices")
    if not choices:
        raise ResponseError(f"the reply has no choices: {reply!r}"[:300])
    return sorted(choices, key=lambda choice: a_count(choice.get("index")))


def _sample(choice: Object, sampling: SamplingParams, repeated: str) -> Sample:
    message = an_optional_object(choice.get("message"))
    reason = str(choice.get("finish_reason") or "unknown")
    refusal = message.get("refusal")
    text = _text_of(choice.get("text") if not message else message.get("content"))
    text = text.removeprefix(repeated)
    if sampling.max_new_tokens == 0:
        text, reason = "", "length"
    meta_info: dict[str, object] = {"finish_reason": _finish_reason(choice, reason)}
    if refusal:
        reason = "refusal"
        meta_info["refusal"] = refusal
    reasoning = (
        message.get("reasoning_content")
        or message.get("reasoning")
        or _thoughts_of(message.get("content"))
    )
    if reasoning:
        meta_info["reasoning_content"] = reasoning
    if sampling.return_logprob:
        meta_info |= _logprobs(choice)
    return Sample(text=text, finish_reason=reason, meta_info=meta_info)


def _text_of(content: object) -> str:
    """Return the text of a content that is a text, absent, or a list of parts."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    parts = objects(a_list(content, "content"), "content")
    return "".join(str(part.get("text") or "") for part in parts)


def _thoughts_of(content: object) -> str:
    """Return what a list of parts has under ``thinking``, as Mistral's models do."""
    parts = objects(content, "content") if isinstance(content, list) else []
    return "".join(_text_of(part.get("thinking")) for part in parts)


def _finish_reason(choice: Object, reason: str) -> Object:
    matched = choice.get("matched_stop", choice.get("stop_reason"))
    return {"type": reason} if matched is None else {"type": reason, "matched": matched}


def _is_whole(choice: Object, sampling: SamplingParams) -> bool:
    """Tell whether a generation ended by itself; a stop string may cut it anywhere."""
    if choice.get("finish_reason") != "stop" or sampling.max_new_tokens == 0:
        return False
    if "matched_stop" in choice or "stop_reason" in choice:
        matched = choice.get("matched_stop", choice.get("stop_reason"))
        return not isinstance(matched, str)
    return not sampling.stop


def _logprobs(choice: Object) -> dict[str, object]:
    given = choice.get("logprobs")
    if not isinstance(given, dict):
        raise ResponseError("the server gave no log-probabilities")
    if "content" in given:
        tokens = objects(given["content"] or [], "logprobs")
        return {
            "output_token_logprobs": [_triple(token) for token in tokens],
            "output_top_logprobs": [
                [
                    _triple(top)
                    for top in objects(token.get("top_logprobs") or [], "top")
                ]
                for token in tokens
            ],
        }
    texts = a_list(given.get("tokens"), "logprobs")
    scores = a_list(given.get("token_logprobs"), "logprobs")
    tops = given.get("top_logprobs") or []
    return {
        "output_token_logprobs": [
            [score, None, text] for text, score in zip(texts, scores, strict=False)
        ],
        "output_top_logprobs": [
            [[score, None, text] for text, score in an_optional_object(top).items()]
            for top in a_list(tops, "logprobs")
        ],
    }


def _triple(token: Object) -> list[object]:
    return [a_logprob(token.get("logprob")), token.get("id"), token.get("token")]


@dataclass(slots=True)
class _Streamed:
    """A choice that comes in pieces."""

    pieces: list[str] = field(default_factory=list)
    logprobs: dict[str, list[object]] = field(default_factory=dict)
    message: dict[str, object] = field(default_factory=dict)
    rest: dict[str, object] = field(default_factory=dict)

    def as_reply(self, index: int, *, is_chat: bool) -> Object:
        text = "".join(self.pieces)
        if "finish_reason" not in self.rest:
            raise ResponseError(f"the stream ended in the middle, after {text[-60:]!r}")
        body = {"message": {**self.message, "content": text}} if is_chat else {}
        logprobs = self.logprobs or None
        return {"text": text, **body, "logprobs": logprobs, **self.rest, "index": index}


def assemble(
    events: Iterable[Object], request: Request, on_text: OnText, *, repeated: str = ""
) -> Object:
    """Return the whole reply that *events* bring in pieces.

    Args:
        events: the events of the stream.
        request: what was asked.
        on_text: gets the pieces of the first choice.
        repeated: what the server repeats of the prompt before each text; *on_text*
            does not get it.

    Raises:
        BackendError: an event reports an error, or the stream ends in the middle.
    """
    streamed = [_Streamed() for _ in range(request.sampling.n)]
    usage: object = None
    tell = after_prefix(repeated, on_text)
    for event in events:
        if event.get("error"):
            raise error_of_event(event, "the stream")
        usage = event.get("usage") or usage
        for choice in objects(event.get("choices") or [], "choices"):
            index = a_count(choice.get("index"))
            if index < len(streamed):
                piece = _add(streamed[index], choice)
                if piece and index == 0:
                    tell(piece)
    is_chat = request.prompt.is_chat
    return {
        "choices": [one.as_reply(i, is_chat=is_chat) for i, one in enumerate(streamed)],
        "usage": usage,
    }


def _add(streamed: _Streamed, choice: Object) -> str:
    delta = an_optional_object(choice.get("delta"))
    piece = _text_of(delta.get("content") if delta else choice.get("text"))
    streamed.pieces.append(piece)
    told = {
        key: delta.get(key) for key in ("refusal", "reasoning_content", "reasoning")
    }
    told["reasoning"] = told["reasoning"] or _thoughts_of(delta.get("content"))
    for key, more in told.items():
        if isinstance(more, str) and more:
            streamed.message[key] = f"{streamed.message.get(key, '')}{more}"
    for key, more in an_optional_object(choice.get("logprobs")).items():
        if isinstance(more, list):
            streamed.logprobs.setdefault(key, []).extend(more)
    if choice.get("finish_reason"):
        for key in ("finish_reason", "matched_stop", "stop_reason"):
            if key in choice:
                streamed.rest[key] = choice[key]
    return piece
