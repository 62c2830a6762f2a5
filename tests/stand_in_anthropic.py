"""Anthropic's Messages API on the stand-in server."""

import json
from typing import Any

from tests.stand_in_model import Json, PretendModel, RefusedError

_FIELDS = """
model max_tokens messages system stop_sequences temperature top_p top_k stream
output_config thinking metadata
"""
_REASONS = {"length": "max_tokens", "stop": "end_turn"}


def refused(said: str) -> RefusedError:
    error = {"type": "invalid_request_error", "message": said}
    return RefusedError(400, {"type": "error", "error": error})


def message(model: PretendModel, payload: Json) -> Json:
    """Return the message that answers, checked as strictly as the API does.

    Raises:
        RefusedError: the API would refuse it.
    """
    _check(payload)
    texts = [_text(payload.get("system", ""))]
    texts += [f"{m['role']}: {_text(m['content'])}" for m in payload["messages"]]
    prompt = "\n".join(texts)
    schema = payload.get("output_config", {}).get("format", {}).get("schema")
    limits = {
        "max_new_tokens": payload["max_tokens"],
        "stop": payload.get("stop_sequences"),
        "json_schema": json.dumps(schema) if schema else None,
    }
    text, reason = model.written(prompt, payload, limits)
    matched = reason.get("matched") if isinstance(reason.get("matched"), str) else None
    content: list[Json] = [{"type": "text", "text": text}]
    if payload.get("thinking"):
        content.insert(0, {"type": "thinking", "thinking": "hm", "signature": "s"})
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "content": content,
        "stop_reason": "stop_sequence" if matched else _REASONS[reason["type"]],
        "stop_sequence": matched,
        "usage": _usage(model, payload, prompt, text),
    }


def events(whole: Json) -> list[Json]:
    """Return *whole* as the events of a stream."""
    usage = whole["usage"]
    head = {**whole, "content": [], "stop_reason": None, "stop_sequence": None}
    given: list[Json] = [
        {"type": "message_start", "message": {**head, "usage": {**usage}}},
        {"type": "ping"},
    ]
    for index, block in enumerate(whole["content"]):
        kind = block["type"]
        half = len(block[kind]) // 2
        empty = {"type": kind, kind: ""}
        given.append(
            {"type": "content_block_start", "index": index, "content_block": empty}
        )
        given += [
            {
                "type": "content_block_delta",
                "index": index,
                "delta": {"type": f"{kind}_delta", kind: piece},
            }
            for piece in (block[kind][:half], block[kind][half:])
        ]
        given.append({"type": "content_block_stop", "index": index})
    end = {key: whole[key] for key in ("stop_reason", "stop_sequence")}
    output = {"output_tokens": usage["output_tokens"]}
    given.append({"type": "message_delta", "delta": end, "usage": output})
    return [*given, {"type": "message_stop"}]


def _check(payload: Json) -> None:
    for name in payload.keys() - set(_FIELDS.split()):
        raise refused(f"{name}: Extra inputs are not permitted")
    if not any(m["role"] == "user" for m in payload["messages"][:1]):
        raise refused("messages: first message must use the user role")
    if any(not stop.strip() for stop in payload.get("stop_sequences", ())):
        raise refused("stop_sequences: each must contain non-whitespace")
    if "temperature" in payload and "top_p" in payload:
        raise refused("temperature and top_p cannot both be specified")
    last = payload["messages"][-1]
    if last["role"] == "assistant" and _text(last["content"])[-1:].isspace():
        raise refused("final assistant content cannot end with trailing whitespace")
    for one in payload["messages"]:
        if not _text(one["content"]).strip():
            raise refused("text content blocks must be non-empty")


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(block.get("text", "<image>") for block in content)


def _usage(model: PretendModel, payload: Json, prompt: str, text: str) -> Json:
    whole = len(model.tokens(prompt))
    marked = model.tokens(_marked(payload))
    read = model.cached(marked) + 1 if marked else 0
    read = 0 if read < len(marked) else len(marked)
    return {
        "input_tokens": whole - len(marked),
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": len(marked) - read,
        "output_tokens": len(model.tokens(text)),
    }


def _marked(payload: Json) -> str:
    """Return the text up to the last block that is marked for the cache."""
    seen, marked = "", ""
    contents = [payload.get("system", ""), *(m["content"] for m in payload["messages"])]
    for content in contents:
        for block in content if isinstance(content, list) else [{"text": content}]:
            seen += block.get("text", "<image>")
            if "cache_control" in block:
                marked = seen
    return marked
