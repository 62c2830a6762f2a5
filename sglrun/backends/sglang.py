"""The backend for SGLang's native server: ``/generate``."""

import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace

from sglrun.backends.base import (
    Backend,
    BackendOptions,
    Capabilities,
    Completion,
    OnText,
    Request,
    Selection,
    SelectRequest,
    Usage,
    template_of,
)
from sglrun.backends.connection import asking, connecting
from sglrun.backends.detection import ask, split_prefix
from sglrun.backends.http.client import HttpClient
from sglrun.backends.refusal import refuse_unsupported
from sglrun.backends.reply import a_count, a_list, an_object, an_optional_object
from sglrun.backends.sglang_scoring import Scoring
from sglrun.backends.sglang_wire import (
    Object,
    Payload,
    assemble,
    parse_completion,
    payload,
    prompt_fields,
)
from sglrun.errors import (
    BackendError,
    BackendTimeoutError,
    BadRequestError,
    ConfigError,
    ModelNotFoundError,
    ResponseError,
)
from sglrun.lang.chat_template import ChatTemplate, get_chat_template_by_model_path
from sglrun.lang.prompt import Prompt

_ABORT_S = 2.0
_NOT_FOUND = 404
# Found by comparing with the server behind it: sglang-router 0.3.2 drops these.
_LOST_BY_ROUTER = frozenset({"stop_regex", "logit_bias"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """What a server told about itself when the backend was made.

    Attributes:
        model: the name that it serves its model under.
        model_path: the model's path, by which its chat template is known.
        images: whether the model sees images.
        prefix_cache: whether prompts that begin alike are not computed twice.
        is_router: whether it is a router in front of servers.
        has_tokenizer: whether it counts tokens.
        begins_prompts: whether a prompt of no text still has a token.
    """

    model: str
    model_path: str
    images: bool = True
    prefix_cache: bool = True
    is_router: bool = False
    has_tokenizer: bool = False
    begins_prompts: bool = False

    @property
    def capabilities(self) -> Capabilities:
        """What a program may use."""
        return Capabilities(
            ebnf=True,
            images=self.images,
            prefix_cache=self.prefix_cache,
            token_counts=self.has_tokenizer,
            unsupported_sampling=_LOST_BY_ROUTER if self.is_router else frozenset(),
        )


class SGLangBackend(Backend):
    """A model behind ``/generate``; prompts go as text, in the model's own markup.

    Attributes:
        facts: what the server told about itself.
    """

    kind = "sglang"

    def __init__(
        self, http: HttpClient, *, facts: ServerFacts, chat_template: ChatTemplate
    ) -> None:
        """Take what ``create`` found out; *http* is closed with the backend."""
        self.facts = facts
        self.server = "a router" if facts.is_router else ""
        self.model = facts.model
        self.chat_template = chat_template
        # Where no marker is known, a video in the text would stand for nothing.
        self.capabilities = replace(
            facts.capabilities,
            videos=facts.images and chat_template.video_token is not None,
        )
        self._http = http
        self.secrets = http.secrets.texts
        what = "the router" if facts.is_router else "the server"
        self._who = f"{what} at {http.base_url} ({facts.model})"
        self._scoring = Scoring(http, takes_lists=not facts.is_router)

    def generate(self, request: Request, on_text: OnText | None = None) -> Completion:
        """Return the completion of *request*."""
        self.check(request)
        asked = payload(request)
        with self._given_up_there_too(asked, request):
            if on_text is None:
                reply = self._http.post_json("/generate", asked)
                return parse_completion(reply, request)
            events = self._http.stream_sse("/generate", {**asked, "stream": True})
            with closing(events):
                answers = assemble(events, request, on_text)
            return parse_completion(list(answers), request)

    @contextmanager
    def _given_up_there_too(self, asked: Payload, request: Request) -> Iterator[None]:
        """Have the server end a generation that nobody waits for any more.

        It would find out by itself some seconds later, and behind a router not at all.
        """
        if request.sampling.n > 1:
            # The server gives samples names of its own.
            yield
            return
        name = asked.setdefault("rid", uuid.uuid4().hex)
        is_answered = False
        try:
            yield
            is_answered = True
        except BackendError as exc:
            is_answered = not isinstance(exc, BackendTimeoutError)
            raise
        finally:
            if not is_answered:
                self._abort(name)

    def _abort(self, name: object) -> None:
        if self.facts.is_router:
            return
        with suppress(BackendError):
            self._http.post("/abort_request", {"rid": name}, timeout_s=_ABORT_S)

    def check(self, request: Request | SelectRequest) -> None:
        """Let *request* pass if the server's model could be asked for it."""
        if isinstance(request, Request):
            refuse_unsupported(self._who, self.capabilities, request)
            self._refuse_empty(request.prompt)

    def select(self, request: SelectRequest) -> Selection:
        """Return the scores of the options; the prompt is read once before them."""
        return self._scoring.of_text(request)

    def cache_prefix(self, prompt: Prompt, *, only_scored: bool = False) -> Usage:
        """Have the server read *prompt*; nothing is generated."""
        del only_scored
        self._refuse_empty(prompt)
        return self._scoring.read(prompt_fields(prompt))

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of *text*; an estimate on old servers."""
        if not self.facts.has_tokenizer:
            return super().count_tokens(text)
        return _count_tokens(self._http, self.model, text)

    def flush_cache(self) -> bool:
        """Forget cached prefixes; a server that is generating refuses."""
        try:
            self._http.post("/flush_cache")
        except BadRequestError:
            return False
        return True

    def get_server_info(self) -> Mapping[str, object]:
        """Return the server's configuration as it tells it."""
        return _first(self._http, "/server_info", "/get_server_info")

    def pause_s(self) -> float:
        """Return how long the server wants no other request, in seconds."""
        return self._http.quota.pause_s

    def close(self) -> None:
        """Close the connections; safe to call twice."""
        self._http.close()

    def _refuse_empty(self, prompt: Prompt) -> None:
        """Refuse a prompt of no tokens, which ends the whole server (0.5.23)."""
        if prompt.text or prompt.media or self.facts.begins_prompts:
            return
        raise BadRequestError(
            f"{self._who} cannot generate after an empty prompt; begin with a text"
        )


def create(options: BackendOptions) -> SGLangBackend:
    """Return the backend at ``options.url``; asks which model answers there.

    Raises:
        ConfigError: no URL, or an unknown template.
        BackendError: nothing answers, it is not SGLang, or it serves another model.

    Warns:
        UserWarning: no chat template is known for the model, and none is named.
    """
    if options.url is None:
        raise ConfigError("name the server with --url, as in http://127.0.0.1:30000")
    template = template_of(options)
    # An address that was copied with /v1 is that of the same server.
    address, _ = split_prefix(options.url)
    with connecting(options, address) as http:
        facts = read_facts(asking(http, options))
        if options.model not in (None, facts.model, facts.model_path):
            raise ModelNotFoundError(
                f"{http.base_url} serves {facts.model!r}, not {options.model!r}; leave "
                "--model out, or name another server"
            )
        template = template or get_chat_template_by_model_path(facts.model_path)
        return SGLangBackend(http, facts=facts, chat_template=template)


def read_facts(http: HttpClient) -> ServerFacts:
    """Ask a server what it is; waits.

    Raises:
        BackendError: nothing answers, or it is not SGLang.
    """
    info = _first(http, "/model_info", "/get_model_info")
    path = info.get("model_path")
    if not isinstance(path, str):
        raise ResponseError(f"{http.base_url} is no SGLang server: it names no model")
    model = str(info.get("served_model_name") or path)
    cache = an_optional_object(info.get("cache"))
    return ServerFacts(
        model=model,
        model_path=path,
        images=info.get("has_image_understanding") is not False,
        prefix_cache=cache.get("radix_cache_disabled") is not True,
        is_router=_is_router(http),
        has_tokenizer=_counts(http, model, "a b"),
        begins_prompts=_counts(http, model, ""),
    )


def _first(http: HttpClient, path: str, older_path: str) -> Object:
    try:
        return an_object(ask(http, path), path)
    except BackendError as exc:
        if exc.http_status != _NOT_FOUND:
            raise
    try:
        return an_object(ask(http, older_path), older_path)
    except BackendError as exc:
        if exc.http_status != _NOT_FOUND:
            raise
        raise BadRequestError(
            f"{http.base_url} is no SGLang server: it has neither {path} nor "
            f"{older_path}; for other servers use --backend openai",
            http_status=exc.http_status,
        ) from exc


def _is_router(http: HttpClient) -> bool:
    try:
        reply = ask(http, "/get_server_info")
    except BackendError:
        return False
    return "router_manager" in an_optional_object(reply)


def _counts(http: HttpClient, model: str, text: str) -> bool:
    try:
        return _count_tokens(http, model, text) > 0
    except BackendError:
        return False


def _count_tokens(http: HttpClient, model: str, text: str) -> int:
    asked = {"model": model, "prompt": text}
    reply = an_object(http.post_json("/tokenize", asked), "the reply")
    return a_count(reply.get("count")) or len(a_list(reply.get("tokens"), "tokens"))
