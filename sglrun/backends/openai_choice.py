"""A choice among options in OpenAI's shape: by scores, or by enforcing one of them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sglrun.backends.alignment import own_start
from sglrun.backends.base import Request, SelectRequest
from sglrun.backends.dialects import Dialect
from sglrun.backends.enum_choice import (
    check_chosen,
    enum_limit,
    enum_schema,
    parse_enum,
)
from sglrun.backends.gbnf import texts_grammar
from sglrun.backends.openai_payload import (
    Payload,
    payload,
    put,
    refuse,
    response_format,
)
from sglrun.backends.reply import (
    a_list,
    a_logprob,
    an_object,
    an_optional_object,
    objects,
)
from sglrun.errors import ResponseError
from sglrun.lang.choices import ChoiceScore, TokenLogprob
from sglrun.lang.constraints import choices_regex
from sglrun.lang.sampling import DEFAULTS

_THINKING_TOKENS = 4096


def is_scored(dialect: Dialect, request: SelectRequest) -> bool:
    """Tell whether *request* is decided by log-probabilities."""
    if not request.prompt.is_chat:
        return bool(dialect.scores)
    plain = not request.prompt.media and request.prompt.role == "assistant"
    return bool(dialect.scores) and dialect.tokenizes_chats and plain


def chats(dialect: Dialect, model: str, request: SelectRequest) -> list[Payload]:
    """Return what is posted to ``/tokenize`` for the texts to be scored in a chat.

    The server writes the turns with its own template: first the prompt alone, then
    with each option.
    """
    prompt = request.prompt
    turns = [message.as_openai() for message in prompt.messages]
    begun = prompt.open_message.text if prompt.open_message else ""
    texts = [begun, *(begun + choice for choice in request.choices)]
    return [
        {
            "model": model,
            "messages": [*turns, {"role": "assistant", "content": text}],
            **dialect.prefill_fields,
        }
        if text
        else {"model": model, "messages": turns}
        for text in texts
    ]


def scoring_payload(model: str, prompts: Sequence[object]) -> Payload:
    """Return what asks for the log-probabilities of *prompts*, texts or token ids."""
    return {
        "model": model,
        "prompt": list(prompts),
        "max_tokens": 1,
        "temperature": 0,
        "prompt_logprobs": 0,
        "return_token_ids": True,
    }


def scored_prompts(request: SelectRequest) -> list[str]:
    """Return the prompts to be scored: the prompt itself first, if it has a text."""
    text = request.prompt.text
    alone = [text] if text else []
    return [*alone, *(text + choice for choice in request.choices)]


def parse_scores(reply: object, request: SelectRequest) -> tuple[ChoiceScore, ...]:
    """Return the scores in the reply to ``scored_prompts``.

    Raises:
        ResponseError: it is not what the protocol says.
        BadRequestError: an option has no token of its own.
    """
    has_prompt = bool(request.prompt.text)
    listed = _listed(reply, len(request.choices) + has_prompt)
    prompt_ids = _ids(listed[0]) if has_prompt else ()
    return tuple(
        _score(choice, prompt_ids, of_choice)
        for choice, of_choice in zip(
            request.choices, listed[-len(request.choices) :], strict=True
        )
    )


def with_unconditional(
    scores: Sequence[ChoiceScore], reply: object
) -> tuple[ChoiceScore, ...]:
    """Return *scores* with what *reply* says of the same tokens without the prompt."""
    listed = _listed(reply, len(scores))
    return tuple(
        replace(score, unconditional=tuple(t.logprob for t in _tokens(one, 0)))
        for score, one in zip(scores, listed, strict=True)
    )


def _listed(reply: object, count: int) -> Sequence[Mapping[str, object]]:
    choices = objects(an_object(reply, "the reply").get("choices"), "choices")
    if len(choices) != count:
        raise ResponseError(f"the server scored {len(choices)} of {count} prompts")
    return choices


def _ids(choice: Mapping[str, object]) -> tuple[int, ...]:
    ids = a_list(choice.get("prompt_token_ids"), "prompt_token_ids")
    return tuple(one for one in ids if isinstance(one, int))


def _score(
    choice: str, prompt_ids: Sequence[int], reply: Mapping[str, object]
) -> ChoiceScore:
    start = own_start(prompt_ids, _ids(reply), choice)
    return ChoiceScore(choice=choice, tokens=_tokens(reply, start))


def _tokens(choice: Mapping[str, object], start: int) -> tuple[TokenLogprob, ...]:
    ids = _ids(choice)
    entries = a_list(choice.get("prompt_logprobs"), "prompt_logprobs")
    if len(entries) != len(ids):
        raise ResponseError(f"{len(entries)} log-probabilities for {len(ids)} tokens")
    return tuple(
        _token(entry, token_id)
        for entry, token_id in zip(entries[start:], ids[start:], strict=True)
    )


def _token(entry: object, token_id: int) -> TokenLogprob:
    found = an_optional_object(an_optional_object(entry).get(str(token_id)))
    if entry is not None and "logprob" not in found:
        raise ResponseError(f"token {token_id} has no log-probability in {entry!r}")
    text = str(found.get("decoded_token") or "")
    return TokenLogprob(a_logprob(found.get("logprob")), token_id, text)


def constrained(dialect: Dialect, model: str, request: SelectRequest) -> Payload:
    """Return what has the server write one of the options and nothing else.

    Raises:
        UnsupportedFeatureError: the dialect has no way to enforce it.
    """
    limit = enum_limit(request.choices) + _THINKING_TOKENS * dialect.thinks
    temperature = 1.0 if dialect.thinks else 0.0
    sampling = replace(DEFAULTS, temperature=temperature, max_new_tokens=limit)
    written = payload(dialect, model, Request(prompt=request.prompt, sampling=sampling))
    match dialect.choice:
        case "list":
            put(written, ("structured_outputs", "choice"), list(request.choices))
        case "regex":
            put(written, dialect.regex, choices_regex(request.choices))
        case "grammar":
            put(written, dialect.ebnf, texts_grammar(request.choices))
        case "json":
            if not request.prompt.is_chat:
                refuse(dialect, "select in a prompt without roles")
            if not dialect.json_schema:
                refuse(dialect, "select")
            put(
                written,
                ("response_format",),
                response_format(enum_schema(request.choices)),
            )
    return written


def parse_chosen(dialect: Dialect, text: str, choices: Sequence[str]) -> str:
    """Return the option that the server wrote.

    Raises:
        ResponseError: it wrote something else.
    """
    chosen = parse_enum(text) if dialect.choice == "json" else text
    return check_chosen(chosen, text, choices)
