"""The wire of the stand-in server: what each address answers, as functions.

SGLang's ``/generate`` with both formats of log-probabilities and streams; OpenAI's
chat and completions, with what vLLM and llama-server add.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from tests import stand_in_anthropic as anthropic
from tests.stand_in_model import Json, Kind, PretendModel, RefusedError

_OWNERS = {
    "sglang": "sglang",
    "vllm": "vllm",
    "llama-server": "llamacpp",
    "openai": "system",
    "anthropic": "none",
}
_SGLANG_SAMPLING = """
max_new_tokens min_new_tokens n stop stop_token_ids stop_regex temperature top_p top_k
min_p frequency_penalty presence_penalty repetition_penalty json_schema regex ebnf
structural_tag ignore_eos skip_special_tokens spaces_between_special_tokens no_stop_trim
stream_interval logit_bias sampling_seed custom_params
"""
# Where Azure has what others have below /v1.
_AZURE = re.compile(r"^/openai/(v1|deployments/[^/]+)")
_NOT_OPENAI = ("top_k", "min_p", "repetition_penalty", "regex", "structured_outputs")


@dataclass
class Stream:
    """An answer in server-sent events."""

    events: list[Json]


Body = Json | list[Json] | Stream | str


def respond(model: PretendModel, method: str, path: str, payload: Json) -> Body:
    """Return the body of the answer.

    Raises:
        RefusedError: the status is not 200.
    """
    route = _ROUTES.get((method, _AZURE.sub("/v1", urlsplit(path).path)))
    if route is None or (route.kinds and model.kind not in route.kinds):
        raise RefusedError(404, {"detail": "Not Found"})
    return route.respond(model, payload)


def _prompts(model: PretendModel, given: Any) -> list[str]:
    if isinstance(given, str):
        return [given]
    if given and isinstance(given[0], int):
        return [model.text(given)]
    return [p if isinstance(p, str) else model.text(p) for p in given]


def _is_batch(given: Any) -> bool:
    return isinstance(given, list) and not (given and isinstance(given[0], int))


def _generate(model: PretendModel, payload: Json) -> Json | list[Json] | Stream:
    params = payload.get("sampling_params", {})
    for name in params:
        if name not in _SGLANG_SAMPLING.split():
            raise RefusedError(
                400, {"error": f"unknown field `{name}`, expected one of ..."}
            )
    given = payload.get("text", payload.get("input_ids"))
    if isinstance(payload.get("text"), list) and not model.list_text:
        raise RefusedError(422, "text: invalid type: sequence, expected a string")
    prompts = _prompts(model, given)
    n = params.get("n", 1)
    answers = [_one(model, payload, prompt) for prompt in prompts for _ in range(n)]
    if payload.get("stream"):
        return Stream([e for i, a in enumerate(answers) for e in _events(model, i, a)])
    return answers if _is_batch(given) or n > 1 else answers[0]


def _one(model: PretendModel, payload: Json, prompt: str) -> Json:
    text, reason = model.written(prompt, payload, payload.get("sampling_params", {}))
    tokens, new = model.tokens(prompt), model.tokens(text)
    cached = model.cached(tokens)
    meta: Json = {
        "id": payload.get("rid") or "r",
        "finish_reason": reason,
        "prompt_tokens": len(tokens),
        "completion_tokens": len(new),
        "cached_tokens": cached,
    }
    if payload.get("return_logprob"):
        meta["input_token_logprobs"] = _input_logprobs(model, payload, tokens)
        meta["output_token_logprobs"] = _triples(
            model, payload, tokens + new, len(tokens)
        )
    return {"text": text, "output_ids": model.ids(new), "meta_info": meta}


def _input_logprobs(
    model: PretendModel, payload: Json, tokens: list[str]
) -> list[list[Any]]:
    start = payload.get("logprob_start_len", -1)
    if start is None or start < 0:
        return []
    if start > len(tokens):
        raise RefusedError(
            400, {"error": {"message": "logprob_start_len is too large"}}
        )
    triples = _triples(model, payload, tokens, start)
    if model.logprob_format == "old":
        return triples[1:]
    if triples:
        triples[0][0] = None
    return triples


def _triples(
    model: PretendModel, payload: Json, tokens: list[str], start: int
) -> list[list[Any]]:
    ids = model.ids(tokens)
    texts = payload.get("return_text_in_logprobs")
    return [
        [model.score(tokens, at), ids[at], tokens[at] if texts else None]
        for at in range(start, len(tokens))
    ]


def _events(model: PretendModel, index: int, answer: Json) -> Iterator[Json]:
    tokens = model.tokens(answer["text"]) or [""]
    for count in range(1, len(tokens) + 1):
        shown = (
            tokens[:count] if model.stream_form == "cumulative" else [tokens[count - 1]]
        )
        meta = dict(
            answer["meta_info"], completion_tokens=count if tokens != [""] else 0
        )
        if count < len(tokens):
            meta["finish_reason"] = None
        yield {"text": "".join(shown), "index": index, "meta_info": meta}


def _model_info(model: PretendModel, _: Json) -> Json:
    return {
        "model_path": model.model_path,
        "served_model_name": model.model,
        "is_generation": True,
        "has_image_understanding": model.sees,
    }


def _new_model_info(model: PretendModel, payload: Json) -> Json:
    if model.old_info:
        raise RefusedError(404, {"detail": "Not Found"})
    return _model_info(model, payload)


def _tokenize(model: PretendModel, payload: Json) -> Json:
    if not model.has_tokenize:
        raise RefusedError(404, {"detail": "Not Found"})
    if model.kind == "sglang" and payload.get("add_generation_prompt") is False:
        raise RefusedError(400, {"message": "needs add_generation_prompt"})
    text = str(payload.get("prompt") or payload.get("content") or "")
    if "messages" in payload:
        open_turn = not payload.get("continue_final_message")
        text = _written(payload["messages"]) + ("\nassistant: " if open_turn else "")
    ids = model.ids(model.tokens(text))
    if not text and model.begins_prompts:
        ids = [1]
    return {"tokens": ids, "count": len(ids), "max_model_len": 2048}


def _flush(model: PretendModel, _: Json) -> str:
    model.forget()
    return "Cache flushed.\n"


def _models(model: PretendModel, _: Json) -> Json:
    names = (model.model,) if model.models is None else model.models
    owner = _OWNERS[model.kind]
    return {
        "object": "list",
        "data": [{"id": name, "object": "model", "owned_by": owner} for name in names],
    }


def grammar_regex(grammar: str) -> str:
    """Read a grammar of one rule as a pattern; the two notations differ little.

    Quotes become groups, and blanks outside quotes and classes only separate.
    """
    rule = re.sub(
        r'"([^"]*)"',
        lambda text: f"(?:{text[1]})".replace(" ", r"\x20"),
        grammar.removeprefix("root ::= "),
    )
    return re.sub(r"(\[[^]]*\])| ", lambda part: part[1] or "", rule)


def _limits(payload: Json) -> Json:
    structured = payload.get("structured_outputs") or {}
    response_format = payload.get("response_format") or {}
    schema = (
        response_format.get("json_schema", {}).get("schema")
        or structured.get("json")
        or payload.get("json_schema")
    )
    limit = payload.get("max_completion_tokens", payload.get("max_tokens", 16))
    grammar = payload.get("grammar")
    as_regex = grammar_regex(grammar) if grammar else None
    return {
        "stop": payload.get("stop"),
        "max_new_tokens": limit,
        "regex": structured.get("regex") or payload.get("regex") or as_regex,
        "choice": structured.get("choice"),
        "json_schema": json.dumps(schema) if isinstance(schema, dict) else schema,
    }


def _chat(model: PretendModel, payload: Json) -> Json | Stream:
    messages = payload["messages"]
    prompt = _written(messages)
    prefix = messages[-1]["content"] if messages[-1]["role"] == "assistant" else ""
    repeated = prefix if model.kind == "llama-server" else ""

    def choice(index: int, text: str, reason: str | None) -> Json:
        message = {"role": "assistant", "content": repeated + text, "refusal": None}
        found: Json = {"index": index, "message": message, "finish_reason": reason}
        if payload.get("logprobs"):
            tokens = model.tokens(text)
            content = [{"token": token, "logprob": -0.5} for token in tokens]
            found["logprobs"] = {"content": content}
        return found

    def delta(index: int, text: str, reason: str | None) -> Json:
        return {"index": index, "delta": {"content": text}, "finish_reason": reason}

    return _openai(model, payload, [prompt], (choice, delta), "chat.completion")


def _written(messages: list[Json]) -> str:
    return "\n".join(f"{m['role']}: {_content(m)}" for m in messages)


def _content(message: Json) -> str:
    content = message["content"]
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "<image>") for part in content)


def _completions(model: PretendModel, payload: Json) -> Json | Stream:
    prompts = _prompts(model, payload["prompt"])

    def choice(index: int, text: str, reason: str | None) -> Json:
        found: Json = {"index": index, "text": text, "finish_reason": reason}
        if payload.get("logprobs") and reason:
            tokens = model.tokens(text)
            scores = [-0.5] * len(tokens)
            found["logprobs"] = {"tokens": tokens, "token_logprobs": scores}
        if payload.get("prompt_logprobs") is not None:
            prompt = prompts[index // payload.get("n", 1)]
            found |= _prompt_logprobs(model, prompt)
        return found

    return _openai(model, payload, prompts, (choice, choice), "text_completion")


def _prompt_logprobs(model: PretendModel, prompt: str) -> Json:
    tokens = model.tokens(prompt)
    ids = model.ids(tokens)
    scores: list[Any] = [
        {
            str(ids[at]): {
                "logprob": model.score(tokens, at),
                "decoded_token": tokens[at],
            }
        }
        for at in range(len(tokens))
    ]
    return {"prompt_logprobs": [None, *scores[1:]], "prompt_token_ids": ids}


Choice = Callable[[int, str, str | None], Json]


def _openai(
    model: PretendModel,
    payload: Json,
    prompts: list[str],
    make: tuple[Choice, Choice],
    name: str,
) -> Json | Stream:
    if model.kind == "openai" and (
        bad := [key for key in _NOT_OPENAI if key in payload]
    ):
        message = f"Unrecognized request argument supplied: {bad[0]}"
        raise RefusedError(
            400, {"error": {"message": message, "type": "invalid_request_error"}}
        )
    if payload["model"] not in (model.models or (model.model,)):
        message = f"The model `{payload['model']}` does not exist."
        raise RefusedError(
            404, {"error": {"message": message, "code": "model_not_found"}}
        )
    if model.kind == "vllm" and payload.get("n", 1) > 1 and not payload["temperature"]:
        message = f"n must be 1 when using greedy sampling, got {payload['n']}."
        raise RefusedError(400, {"error": {"message": message, "code": 400}})
    texts = [
        model.written(prompt, payload, _limits(payload))
        for prompt in prompts
        for _ in range(payload.get("n", 1))
    ]
    head: Json = {"id": "c-1", "object": name, "model": payload["model"]}
    tokens = [model.tokens(prompt) for prompt in prompts]
    new = sum(len(model.tokens(text)) for text, _ in texts)
    usage = {
        "prompt_tokens": sum(map(len, tokens)),
        "completion_tokens": new,
        "prompt_tokens_details": {"cached_tokens": sum(map(model.cached, tokens))},
    }
    choice, delta = make
    if not payload.get("stream"):
        choices = [
            choice(i, text, reason["type"]) for i, (text, reason) in enumerate(texts)
        ]
        return {**head, "choices": choices, "usage": usage}
    events = [
        {**head, "choices": [piece]}
        for i, (text, reason) in enumerate(texts)
        for piece in (
            *(delta(i, token, None) for token in model.tokens(text)),
            delta(i, "", reason["type"]),
        )
    ]
    if (payload.get("stream_options") or {}).get("include_usage"):
        events.append({**head, "choices": [], "usage": usage})
    return Stream(events)


def _messages(model: PretendModel, payload: Json) -> Json | Stream:
    whole = anthropic.message(model, payload)
    return Stream(anthropic.events(whole)) if payload.get("stream") else whole


@dataclass
class _Route:
    respond: Callable[[PretendModel, Json], Body]
    kinds: tuple[Kind, ...] = ()


_ROUTES: dict[tuple[str, str], _Route] = {
    ("POST", "/generate"): _Route(_generate, ("sglang",)),
    ("GET", "/model_info"): _Route(_new_model_info, ("sglang",)),
    ("GET", "/get_model_info"): _Route(_model_info, ("sglang",)),
    ("GET", "/server_info"): _Route(lambda *_: {"version": "0.5.23"}, ("sglang",)),
    ("POST", "/flush_cache"): _Route(_flush, ("sglang",)),
    ("POST", "/tokenize"): _Route(_tokenize, ("sglang", "vllm", "llama-server")),
    ("GET", "/version"): _Route(lambda *_: {"version": "0.32.0"}, ("vllm",)),
    ("GET", "/props"): _Route(
        lambda m, _: {"model_path": m.model_path, "modalities": {"vision": m.sees}},
        ("llama-server",),
    ),
    ("GET", "/health"): _Route(lambda *_: {"status": "ok"}),
    ("GET", "/v1/models"): _Route(_models),
    ("POST", "/v1/messages"): _Route(_messages),
    ("POST", "/v1/chat/completions"): _Route(_chat),
    ("POST", "/v1/completions"): _Route(_completions),
}
