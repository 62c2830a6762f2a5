"""Payloads in OpenAI's shape: a request, as a dialect wants it written."""

import json
from collections.abc import Mapping
from typing import NoReturn

from sglrun.backends.base import Request
from sglrun.backends.dialects import Dialect, Path
from sglrun.backends.gbnf import regex_grammar
from sglrun.backends.refusal import outside_turns
from sglrun.errors import UnsupportedFeatureError
from sglrun.lang.prompt import Prompt
from sglrun.lang.sampling import DEFAULTS, SamplingParams

Payload = dict[str, object]

_SHOWN = 60
_USUAL = DEFAULTS.given()


def endpoint(prompt: Prompt) -> str:
    """Return the path that *prompt* goes to."""
    return "/chat/completions" if prompt.is_chat else "/completions"


def payload(dialect: Dialect, model: str, request: Request) -> Payload:
    """Return what is posted for *request*.

    Raises:
        UnsupportedFeatureError: the dialect cannot carry a part of it.
    """
    sampling = request.sampling
    written: Payload = {
        "model": model,
        **prompt_fields(dialect, request.prompt),
        **_limit(dialect, request),
        **_sampling(dialect, sampling),
        **_logprobs(dialect, request),
        **dialect.more,
    }
    if sampling.json_schema is not None:
        _put_schema(dialect, request, written)
    if sampling.regex is not None:
        path = dialect.regex or refuse(dialect, "regex")
        put(written, path, _pattern(dialect, sampling.regex))
    if sampling.ebnf is not None:
        put(written, dialect.ebnf or refuse(dialect, "ebnf"), sampling.ebnf)
    return {**written, **(sampling.extra or {})}


def _put_schema(dialect: Dialect, request: Request, written: Payload) -> None:
    if not dialect.json_schema:
        refuse(dialect, "json_schema")
    text = request.sampling.json_schema or ""
    if request.prompt.is_chat:
        if prefill(request.prompt) and not dialect.schema_after_prefill:
            refuse(dialect, "json_schema after text inside assistant()")
        put(written, ("response_format",), response_format(json.loads(text)))
        return
    path = dialect.plain_schema or refuse(
        dialect, "json_schema in a prompt without roles"
    )
    put(written, path, text if dialect.plain_schema_as_text else json.loads(text))


def _pattern(dialect: Dialect, regex: str) -> str:
    if not dialect.regex_as_grammar:
        return regex
    try:
        return regex_grammar(regex)
    except ValueError as exc:
        refuse(dialect, f"a regex that is no grammar: {exc}")


def prompt_fields(dialect: Dialect, prompt: Prompt) -> Payload:
    """Return the fields of *prompt*.

    Raises:
        UnsupportedFeatureError: the dialect cannot carry a part of it.
    """
    if prompt.is_chat:
        return _chat(dialect, prompt)
    if not dialect.completion:
        refuse(dialect, "a prompt without roles (use user() and assistant())")
    if not prompt.text and not dialect.empty_prompt:
        refuse(dialect, "an empty prompt")
    if prompt.media:
        refuse(dialect, "an image or a video outside user() and assistant()")
    return {"prompt": prompt.text}


def prefill(prompt: Prompt) -> str:
    """Return the text of the open assistant turn, which a generation continues."""
    return prompt.open_message.text if prompt.open_message else ""


def response_format(schema: object) -> Payload:
    """Return the field that holds a generation to *schema*."""
    named = {"name": "answer", "schema": schema, "strict": True}
    return {"type": "json_schema", "json_schema": named}


def put(written: Payload, path: Path, value: object) -> None:
    """Write *value* at *path*, making the objects on the way."""
    *outside, last = path
    at = written
    for key in outside:
        inside = at.setdefault(key, {})
        if not isinstance(inside, dict):
            raise TypeError(f"{key!r} holds {inside!r} already")
        at = inside
    at[last] = value


def refuse(dialect: Dialect, feature: str) -> NoReturn:
    """Refuse *feature* by name.

    Raises:
        UnsupportedFeatureError: always.
    """
    raise UnsupportedFeatureError(
        f"an OpenAI-shaped server of the kind {dialect.name!r} cannot carry {feature}; "
        "use another backend, or leave it out"
    )


def _chat(dialect: Dialect, prompt: Prompt) -> Payload:
    for feature in outside_turns(prompt):
        refuse(dialect, feature)
    if prompt.images and not dialect.images:
        refuse(dialect, "images: its model sees none")
    messages = [message.as_openai() for message in prompt.messages]
    films = _videos(dialect, prompt)
    opened = prompt.open_message
    if opened is None or not opened.parts:
        return {"messages": messages, **films}
    if not dialect.prefill:
        text = opened.text[:_SHOWN]
        refuse(dialect, f"text before a generation inside assistant(): {text!r}")
    last = {**opened.as_openai(), **dialect.prefill_mark}
    return {"messages": [*messages, last], **films, **dialect.prefill_fields}


def _videos(dialect: Dialect, prompt: Prompt) -> Payload:
    """Return the fields that say how the videos of *prompt* are read."""
    if prompt.videos and not dialect.videos:
        refuse(dialect, "a video")
    frames = {video.num_frames for video in prompt.videos}
    written: Payload = {}
    if frames - {None}:
        path = dialect.video_frames or refuse(dialect, "num_frames of a video")
        if len(frames) > 1:
            refuse(dialect, "videos of different num_frames in one request")
        put(written, path, frames.pop())
    return written


def _limit(dialect: Dialect, request: Request) -> Payload:
    name = dialect.chat_limit if request.prompt.is_chat else "max_tokens"
    # A server that only reads the prompt is not common: one token is asked for, and
    # dropped.
    return {name: max(request.sampling.max_new_tokens, 1)}


def _sampling(dialect: Dialect, sampling: SamplingParams) -> Payload:
    asked = sampling.given()
    written: Payload = {}
    for name, wire_name in dialect.fields.items():
        if name in asked and (
            name in dialect.always or asked[name] != _USUAL.get(name)
        ):
            written[wire_name] = asked[name]
    for name in sorted(dialect.capabilities.unsupported_sampling & asked.keys()):
        if asked[name] != _USUAL.get(name):
            refuse(dialect, f"{name}={asked[name]!r}")
    return written


def _logprobs(dialect: Dialect, request: Request) -> Payload:
    if not request.sampling.return_logprob:
        return {}
    wanted = request.sampling.top_logprobs_num or 0
    if dialect.counts_logprobs or not request.prompt.is_chat:
        # llama-server reads 0 as none at all.
        return {"logprobs": max(wanted, 1)}
    return {"logprobs": True, **({"top_logprobs": wanted} if wanted else {})}


def stream_fields(dialect: Dialect) -> Mapping[str, object]:
    """Return the fields that ask for a stream whose last event tells the usage."""
    if not dialect.stream_options:
        return {"stream": True}
    return {"stream": True, "stream_options": {"include_usage": True}}
