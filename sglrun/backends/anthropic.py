"""The backend for Anthropic's Messages API, and servers that speak it too."""

import json
from collections.abc import Mapping
from contextlib import closing
from dataclasses import fields, replace

from sglrun.backends import anthropic_payload as wire
from sglrun.backends.anthropic_reply import (
    assemble,
    is_whole,
    parse_sample,
    parse_usage,
)
from sglrun.backends.base import (
    Backend,
    BackendOptions,
    Capabilities,
    Completion,
    OnText,
    Request,
    Sample,
    Selection,
    SelectRequest,
    Usage,
    template_of,
)
from sglrun.backends.connection import asking, connecting
from sglrun.backends.detection import list_models, split_prefix, the_model
from sglrun.backends.enum_choice import (
    check_chosen,
    enum_limit,
    enum_schema,
    parse_enum,
)
from sglrun.backends.http.client import HttpClient
from sglrun.backends.one_by_one import generate_one_by_one
from sglrun.backends.pieces import after_prefix, until_stop
from sglrun.backends.refusal import refuse_choice, refuse_unsupported
from sglrun.backends.reply import check_constraint
from sglrun.errors import BadRequestError, ConfigError
from sglrun.lang.chat_template import DEFAULT_TEMPLATE, ChatTemplate
from sglrun.lang.prompt import Prompt
from sglrun.lang.sampling import DEFAULTS, SamplingParams

ANTHROPIC_URL = "https://api.anthropic.com"
_LLAMA_OWNER = "llamacpp"
_VERSION = "2023-06-01"
_CARRIED = frozenset(
    {
        "max_new_tokens",
        "n",
        "stop",
        "temperature",
        "top_p",
        "top_k",
        "regex",
        "json_schema",
        "ebnf",
        "extra",
    }
)
_CAPABILITIES = Capabilities(
    completion=False,
    regex=False,
    choice_scores=False,
    images=True,
    prefix_cache=True,
    unsupported_sampling=frozenset(f.name for f in fields(SamplingParams)) - _CARRIED,
)
_WHO = "Anthropic's Messages API"


class AnthropicBackend(Backend):
    """A model behind ``/v1/messages``.

    Several samples are as many requests. Text in the assistant turn before a generation
    is sent as the beginning of the answer; newer models refuse that by name.
    """

    kind = "anthropic"
    capabilities = _CAPABILITIES

    def __init__(
        self,
        http: HttpClient,
        *,
        model: str,
        prefix: str = "/v1",
        chat_template: ChatTemplate = DEFAULT_TEMPLATE,
        is_llama_server: bool = False,
    ) -> None:
        """Take what ``create`` found out; *http* is closed with the backend.

        Args:
            http: the server's own address.
            model: the model that answers.
            prefix: what stands between the address and ``/messages``.
            chat_template: how roles are written in a program's text.
            is_llama_server: it repeats what it continues, and ignores schemas.
        """
        if is_llama_server:
            self.capabilities = replace(_CAPABILITIES, json_schema=False, select=False)
        self._repeats = is_llama_server
        # Written by any thread, and only ever to None.
        self._coldest: float | None = 0.0
        self.model = model
        self.chat_template = chat_template
        self._http = http
        self.secrets = http.secrets.texts
        self._path = f"{prefix}/messages"
        # Replaced whole by any thread; one that is lost is only read again.
        self._cached: tuple[wire.Turns, ...] = ()

    def generate(self, request: Request, on_text: OnText | None = None) -> Completion:
        """Return the completion of *request*."""
        self.check(request)
        return generate_one_by_one(self._generate_one, request, on_text)

    def check(self, request: Request | SelectRequest) -> None:
        """Let *request* pass if the API could be asked for it."""
        if isinstance(request, SelectRequest):
            refuse_choice(_WHO, self.capabilities, request)
            return
        refuse_unsupported(_WHO, self.capabilities, request)
        wire.payload(self.model, request)

    def _generate_one(self, request: Request, on_text: OnText | None) -> Completion:
        asked = wire.payload(self.model, request, self._cached)
        reply = self._reply(asked, request, on_text)
        sample = _sample(reply, request, self._dropped(request.prompt))
        check_constraint(request.sampling, [sample.text] if is_whole(sample) else [])
        return Completion(samples=(sample,), usage=parse_usage(reply))

    def select(self, request: SelectRequest) -> Selection:
        """Return the option that the model wrote under a schema of them."""
        self.check(request)
        try:
            completion = self._choose(request)
        except BadRequestError:
            # Some models refuse to be told a temperature.
            if self._coldest is None:
                raise
            self._coldest = None
            completion = self._choose(request)
        text = completion.samples[0].text
        chosen = check_chosen(parse_enum(text), text, request.choices)
        return Selection(chosen=chosen, usage=completion.usage)

    def _choose(self, request: SelectRequest) -> Completion:
        schema = json.dumps(enum_schema(request.choices))
        limit = enum_limit(request.choices)
        sampling = SamplingParams.of(
            json_schema=schema, max_new_tokens=limit, temperature=self._coldest
        )
        asked = Request(prompt=request.prompt, sampling=sampling.over(DEFAULTS))
        return self.generate(asked)

    def cache_prefix(self, prompt: Prompt, *, only_scored: bool = False) -> Usage:
        """Have the API read *prompt* and keep it; one token is generated and dropped.

        The API keeps nothing that is shorter than the model's least length, which is
        1024 tokens or more, and says so only by counts of 0.
        """
        del only_scored
        prefix = wire.said(prompt)
        if not prefix:
            return Usage()
        asked = wire.caching_payload(self.model, prefix)
        usage = parse_usage(self._http.post_json(self._path, asked))
        self._cached = (*self._cached, prefix)
        return usage

    def get_server_info(self) -> Mapping[str, object]:
        """Return the address and what is spoken there."""
        return {"url": self._http.base_url + self._path, "kind": "anthropic"}

    def pause_s(self) -> float:
        """Return how long the server wants no other request, in seconds."""
        return self._http.quota.pause_s

    def close(self) -> None:
        """Close the connections; safe to call twice."""
        self._http.close()

    def _dropped(self, prompt: Prompt) -> tuple[str, ...]:
        """Return what is the prompt's where an answer begins with it."""
        sent, space = wire.begun(prompt)
        return (sent, space) if self._repeats else (space,)

    def _reply(
        self, asked: wire.Payload, request: Request, on_text: OnText | None = None
    ) -> object:
        if on_text is None or request.sampling.max_new_tokens == 0:
            return self._http.post_json(self._path, asked)
        stops = wire.stops_of(request.sampling).here
        tell = until_stop(stops, on_text)
        tell_new: OnText = tell
        for piece in reversed(self._dropped(request.prompt)):
            tell_new = after_prefix(piece, tell_new)
        with closing(self._http.stream_sse(self._path, {**asked, "stream": True})) as s:
            reply = assemble(s, tell_new)
        tell("")
        return reply


def create(options: BackendOptions) -> AnthropicBackend:
    """Return the backend at ``options.url``, or Anthropic's own; asks for its models.

    Raises:
        ConfigError: no key for Anthropic, an unknown template, or a model must be
            named.
        BackendError: nothing answers, or the key is refused.
    """
    url = options.url or ANTHROPIC_URL
    if options.url is None and options.api_key is None:
        raise ConfigError(
            "Anthropic wants a key: set ANTHROPIC_API_KEY (or name another variable "
            "with --api-key-env), or name another server with --url"
        )
    template = template_of(options) or DEFAULT_TEMPLATE
    address, prefixes = split_prefix(url)
    with connecting(_with_version(options), address) as http:
        found = list_models(asking(http, options), prefixes)
        return AnthropicBackend(
            http,
            model=the_model(found, options.model, url),
            prefix=found.prefix,
            chat_template=template,
            is_llama_server=_LLAMA_OWNER in found.owners,
        )


def _with_version(options: BackendOptions) -> BackendOptions:
    own = {"anthropic-version": _VERSION}
    if options.api_key is not None:
        # Other servers that speak this API want their key as they always do, or so.
        own["x-api-key"] = options.api_key.value.strip()
    return replace(options, headers={**own, **options.headers})


def _sample(reply: object, request: Request, dropped: tuple[str, ...]) -> Sample:
    stops = wire.stops_of(request.sampling).here
    sample = parse_sample(reply, dropped=dropped, stops=stops)
    if request.sampling.max_new_tokens:
        return sample
    return replace(sample, text="", finish_reason="length")
