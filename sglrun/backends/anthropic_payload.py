"""Payloads of Anthropic's Messages API: a request, as that API wants it written."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import NoReturn

from sglrun.backends.base import Request
from sglrun.backends.refusal import outside_turns
from sglrun.errors import UnsupportedFeatureError
from sglrun.lang.prompt import ImageData, Message, Prompt
from sglrun.lang.sampling import DEFAULTS, SamplingParams

Payload = dict[str, object]
Turns = tuple[Message, ...]

_CACHED: Payload = {"cache_control": {"type": "ephemeral"}}
# There must be a turn of the user's; it stands after what is cached.
_ANY_TURN = Message("user", (".",))
# What is given as our default is the API's default too. Some models refuse
# temperature and top_p together, so neither is sent unless it is asked for.
_NAMES = {"temperature": "temperature", "top_p": "top_p", "top_k": "top_k"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stops:
    """Stop strings, by who looks for them.

    Attributes:
        there: those that are sent.
        here: those of white space only, which the API refuses to look for.
    """

    there: tuple[str, ...]
    here: tuple[str, ...]


def stops_of(sampling: SamplingParams) -> Stops:
    """Return the stop strings of *sampling*."""
    given = tuple(stop for stop in sampling.stop if stop)
    return Stops(
        there=tuple(stop for stop in given if stop.strip()),
        here=tuple(stop for stop in given if not stop.strip()),
    )


def payload(model: str, request: Request, cached: Sequence[Turns] = ()) -> Payload:
    """Return what is posted for one sample of *request*.

    Args:
        model: the model that is to answer.
        request: what is asked.
        cached: prefixes that were sent before; the longest that the prompt begins
            with is marked, so that it is not read again.

    Raises:
        UnsupportedFeatureError: the API cannot carry a part of it.
    """
    sampling = request.sampling
    usual = DEFAULTS.given()
    written: Payload = {
        "model": model,
        "max_tokens": max(sampling.max_new_tokens, 1),
        **_turns(turns_of(request.prompt), cached),
    }
    for name, value in sampling.given().items():
        if name in _NAMES and value != usual.get(name):
            written[_NAMES[name]] = value
    if stops := stops_of(sampling).there:
        written["stop_sequences"] = list(stops)
    if sampling.json_schema is not None:
        if request.prompt.open_message and request.prompt.open_message.parts:
            refuse("json_schema after text inside assistant()")
        written["output_config"] = output_config(json.loads(sampling.json_schema))
    return {**written, **(sampling.extra or {})}


def caching_payload(model: str, prefix: Turns) -> Payload:
    """Return what has the API read *prefix* and keep it."""
    needs_turn = all(turn.role != "user" for turn in prefix[-1:])
    turns = (*prefix, *([_ANY_TURN] if needs_turn else []))
    return {"model": model, "max_tokens": 1, **_turns(turns, (prefix,))}


def output_config(schema: object) -> Payload:
    """Return the field that holds a generation to *schema*."""
    return {"format": {"type": "json_schema", "schema": schema}}


def turns_of(prompt: Prompt) -> Turns:
    """Return the turns of *prompt*, without those that say nothing.

    Raises:
        UnsupportedFeatureError: the API cannot carry a part of it.
    """
    for feature in outside_turns(prompt):
        refuse(feature)
    return said(prompt)


def said(prompt: Prompt) -> Turns:
    """Return the turns of *prompt* that say something, the open one among them."""
    opened = prompt.open_message
    turns = (*prompt.messages, *([opened] if opened else []))
    return tuple(turn for turn in turns if turn.media or turn.text.strip())


def begun(prompt: Prompt) -> tuple[str, str]:
    """Return the text of the open turn as it is sent, and the white space after it.

    The API does not take white space at a prompt's end.
    """
    text = prompt.open_message.text if prompt.open_message else ""
    return text.rstrip(), text[len(text.rstrip()) :]


def refuse(feature: str) -> NoReturn:
    """Refuse *feature* by name.

    Raises:
        UnsupportedFeatureError: always.
    """
    raise UnsupportedFeatureError(
        f"Anthropic's Messages API cannot carry {feature}; use another backend, or "
        "leave it out"
    )


def _turns(turns: Turns, cached: Sequence[Turns]) -> Payload:
    matching = [prefix for prefix in cached if _begins(turns, prefix)]
    longest = max(matching, key=_size, default=())
    system = tuple(takewhile(lambda turn: turn.role == "system", turns))
    contents = [
        _content(
            turn,
            cut=len(longest[at].text) if at + 1 == len(longest) else 0,
            is_last=at + 1 == len(turns),
        )
        for at, turn in enumerate(turns)
    ]
    for turn in turns[len(system) :]:
        if turn.role not in ("user", "assistant"):
            refuse(f"a turn of {turn.role!r} after the first of another role")
    written: Payload = {
        "messages": [
            {"role": turn.role, "content": content}
            for turn, content in zip(
                turns[len(system) :], contents[len(system) :], strict=True
            )
        ]
    }
    match contents[: len(system)]:
        case []:
            return written
        case [one]:
            return {"system": one, **written}
        case several:
            return {
                "system": [b for one in several for b in _as_blocks(one)],
                **written,
            }


def _begins(turns: Turns, prefix: Turns) -> bool:
    if not prefix or len(prefix) > len(turns):
        return False
    *whole, last = prefix
    at = len(whole)
    first = turns[at].parts[:1]
    return (
        list(turns[:at]) == whole
        and turns[at].role == last.role
        and len(last.parts) == 1
        and all(isinstance(p, str) and p.startswith(last.text) for p in first)
    )


def _size(prefix: Turns) -> tuple[int, int]:
    return len(prefix), len(prefix[-1].text)


def _content(turn: Message, *, cut: int, is_last: bool) -> str | list[Payload]:
    """Return what a turn says; its text is cached up to *cut*, if that is not 0."""
    ends_answer = is_last and turn.role == "assistant"
    if not cut and not turn.media:
        return turn.text.rstrip() if ends_answer else turn.text
    blocks = list(_blocks(turn, cut))
    if ends_answer and isinstance(blocks[-1].get("text"), str):
        blocks[-1]["text"] = str(blocks[-1]["text"]).rstrip()
    return blocks


def _blocks(turn: Message, cut: int) -> Iterator[Payload]:
    for part in turn.parts:
        if isinstance(part, ImageData):
            yield _image(part)
            continue
        if cut and part[cut:].strip():
            yield {**_text(part[:cut]), **_CACHED}
            yield _text(part[cut:])
        elif part.strip():
            yield {**_text(part), **(_CACHED if cut else {})}
        cut = 0


def _as_blocks(content: str | list[Payload]) -> list[Payload]:
    return [_text(content)] if isinstance(content, str) else content


def _text(text: str) -> Payload:
    return {"type": "text", "text": text}


def _image(image: ImageData) -> Payload:
    if image.url:
        source: Payload = {"type": "url", "url": image.url}
    else:
        source = {
            "type": "base64",
            "media_type": image.media_type,
            "data": image.base64,
        }
    return {"type": "image", "source": source}
