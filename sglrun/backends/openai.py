"""The backend for servers that speak OpenAI's shape: chat and completions.

What differs among servers stands in ``dialects``.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace

from sglrun.backends import openai_choice
from sglrun.backends.base import (
    Backend,
    BackendOptions,
    Completion,
    OnText,
    Request,
    Selection,
    SelectRequest,
    Usage,
    template_of,
)
from sglrun.backends.connection import asking, connecting
from sglrun.backends.detection import (
    ask,
    detect,
    sglang_info,
    split_prefix,
    the_model,
)
from sglrun.backends.dialects import Dialect
from sglrun.backends.http.client import HttpClient
from sglrun.backends.one_by_one import generate_one_by_one
from sglrun.backends.openai_payload import endpoint, payload, prefill, stream_fields
from sglrun.backends.openai_reply import assemble, parse_completion, parse_usage
from sglrun.backends.refusal import refuse_scores
from sglrun.backends.reply import (
    a_count,
    a_list,
    an_object,
    an_optional_object,
)
from sglrun.backends.sglang_scoring import Scoring
from sglrun.errors import (
    BackendError,
    BackendUnavailableError,
    ConfigError,
    ResponseError,
)
from sglrun.lang.chat_template import DEFAULT_TEMPLATE, ChatTemplate
from sglrun.lang.prompt import Prompt
from sglrun.lang.sampling import DEFAULTS

OPENAI_URL = "https://api.openai.com/v1"

# Below, vLLM and SGLang take the likeliest token.
_COLDEST = 1e-5
_ONE_TOKEN = replace(DEFAULTS, max_new_tokens=0, temperature=0.0)


class OpenAIBackend(Backend):
    """A model behind ``/chat/completions`` and ``/completions``.

    Roles go to the chat endpoint, prompts without roles to the other. Text that stands
    in the assistant turn before a generation is continued where the server can.

    Attributes:
        dialect: how the server wants to be asked.
    """

    kind = "openai"

    def __init__(
        self,
        http: HttpClient,
        *,
        model: str,
        dialect: Dialect,
        prefix: str = "/v1",
        chat_template: ChatTemplate = DEFAULT_TEMPLATE,
    ) -> None:
        """Take what ``create`` found out.

        Args:
            http: the server's own address; closed with the backend.
            model: the model that answers.
            dialect: how the server wants to be asked.
            prefix: what stands between the address and ``/chat/completions``.
            chat_template: how roles are written in a program's text; the server
                writes them in its own way.
        """
        self.model = model
        self.dialect = dialect.of_model(model)
        self.server = self.dialect.name
        self.capabilities = self.dialect.capabilities
        self.chat_template = chat_template
        self._http = http
        self._who = f"an OpenAI-shaped server of the kind {dialect.name!r}"
        self.secrets = http.secrets.texts
        self._prefix = prefix
        self._scoring = Scoring(http)
        # Written by any thread, and only ever to False.
        self._gives_several = "n" in dialect.fields

    def generate(self, request: Request, on_text: OnText | None = None) -> Completion:
        """Return the completion of *request*."""
        if not self._gives_several or self._refuses_several(request):
            return generate_one_by_one(self._generate, request, on_text)
        try:
            return self._generate(request, on_text)
        except ResponseError:
            # Some servers give one text whatever is asked.
            if request.sampling.n == 1 or on_text is not None:
                raise
            self._gives_several = False
        return generate_one_by_one(self._generate, request)

    def _refuses_several(self, request: Request) -> bool:
        greedy = request.sampling.temperature < _COLDEST
        return greedy and not self.dialect.greedy_samples

    def _generate(self, request: Request, on_text: OnText | None) -> Completion:
        asked = payload(self.dialect, self.model, request)
        path = self._prefix + endpoint(request.prompt)
        repeated = self._repeated(request.prompt)
        if on_text is None or request.sampling.max_new_tokens == 0:
            reply = self._http.post_json(path, asked)
            return parse_completion(reply, request, repeated=repeated)
        streamed = {**asked, **stream_fields(self.dialect)}
        with closing(self._http.stream_sse(path, streamed)) as sse:
            whole = assemble(sse, request, on_text, repeated=repeated)
        return parse_completion(whole, request, repeated=repeated)

    def check(self, request: Request | SelectRequest) -> None:
        """Let *request* pass if the dialect can carry it."""
        if isinstance(request, Request):
            payload(self.dialect, self.model, request)
        elif not openai_choice.is_scored(self.dialect, request):
            refuse_scores(self._who, request)
            openai_choice.constrained(self.dialect, self.model, request)

    def select(self, request: SelectRequest) -> Selection:
        """Return scores where the server has them, else the option that it wrote.

        Raises:
            BackendError: no usable answer came, or it cannot be done.
        """
        if openai_choice.is_scored(self.dialect, request):
            return self._scored(request)
        refuse_scores(self._who, request)
        asked = openai_choice.constrained(self.dialect, self.model, request)
        reply = self._http.post_json(self._prefix + endpoint(request.prompt), asked)
        plain = Request(prompt=request.prompt, sampling=DEFAULTS)
        repeated = self._repeated(request.prompt)
        completion = parse_completion(reply, plain, repeated=repeated)
        text = completion.samples[0].text
        chosen = openai_choice.parse_chosen(self.dialect, text, request.choices)
        return Selection(chosen=chosen, usage=completion.usage)

    def cache_prefix(self, prompt: Prompt, *, only_scored: bool = False) -> Usage:
        """Have the server read *prompt*; it generates one token that is dropped."""
        if not self.dialect.prefix_cache:
            return super().cache_prefix(prompt, only_scored=only_scored)
        if not prompt.is_chat:
            return self.generate(Request(prompt=prompt, sampling=_ONE_TOKEN)).usage
        opened = prompt.open_message
        messages = [*prompt.messages, *([opened] if opened else [])]
        asked = {
            "model": self.model,
            "messages": [message.as_openai() for message in messages],
            "max_tokens": 1,
        }
        reply = self._http.post_json(f"{self._prefix}/chat/completions", asked)
        return parse_usage(an_object(reply, "the reply"))

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of *text*; asks the server where it can tell."""
        if not self.dialect.tokenize:
            return super().count_tokens(text)
        asked = {"model": self.model, self.dialect.tokenize: text}
        return len(_tokens(self._http, asked))

    def get_server_info(self) -> Mapping[str, object]:
        """Return the address, the kind of server and its models.

        Raises:
            BackendUnavailableError: the server cannot answer now.
        """
        server = detect(self._http, (self._prefix,))
        if isinstance(server.models.refusal, BackendUnavailableError):
            raise server.models.refusal
        return {
            "url": self._http.base_url + self._prefix,
            "kind": server.dialect.name,
            "models": list(server.models.names),
        }

    def pause_s(self) -> float:
        """Return how long the server wants no other request, in seconds."""
        return self._http.quota.pause_s

    def close(self) -> None:
        """Close the connections; safe to call twice."""
        self._http.close()

    def _repeated(self, prompt: Prompt) -> str:
        return prefill(prompt) if self.dialect.prefill == "repeated" else ""

    def _scored(self, request: SelectRequest) -> Selection:
        chats = self._tokenized(request) if request.prompt.is_chat else []
        if self.dialect.scores == "completions":
            return self._scored_completions(
                request, chats or openai_choice.scored_prompts(request)
            )
        if not chats:
            return self._scoring.of_text(request)
        prompt, *wholes = chats
        return self._scoring.of_tokens(request, prompt, wholes)

    def _tokenized(self, request: SelectRequest) -> Sequence[Sequence[int]]:
        """Return the tokens of a chat, and of it with each option."""
        asked = openai_choice.chats(self.dialect, self.model, request)
        return [_tokens(self._http, one) for one in asked]

    def _scored_completions(
        self, request: SelectRequest, prompts: Sequence[object]
    ) -> Selection:
        path = f"{self._prefix}/completions"
        asked = openai_choice.scoring_payload(self.model, prompts)
        reply = an_object(self._http.post_json(path, asked), "the reply")
        scores = openai_choice.parse_scores(reply, request)
        usage = parse_usage(reply)
        if request.unconditional:
            ids = [[token.token_id for token in score.tokens] for score in scores]
            asked = openai_choice.scoring_payload(self.model, ids)
            reply = an_object(self._http.post_json(path, asked), "the reply")
            scores = openai_choice.with_unconditional(scores, reply)
            usage += parse_usage(reply)
        return Selection(scores=scores, usage=usage)


def create(options: BackendOptions) -> OpenAIBackend:
    """Return the backend at ``options.url``, or OpenAI's own; asks what answers there.

    Raises:
        ConfigError: no key for OpenAI, an unknown template, or a model must be named.
        BackendError: nothing answers, or the key is refused.
    """
    url = options.url or OPENAI_URL
    if options.url is None and options.api_key is None:
        raise ConfigError(
            "OpenAI wants a key: set OPENAI_API_KEY (or name another variable with "
            "--api-key-env), or name your own server with --url"
        )
    template = template_of(options) or DEFAULT_TEMPLATE
    address, prefixes = split_prefix(url)
    with connecting(options, address) as http:
        hurried = asking(http, options)
        server = detect(hurried, prefixes)
        model = the_model(server.models, options.model, url)
        return OpenAIBackend(
            http,
            model=model,
            dialect=_as_reached(hurried, server.dialect, model),
            prefix=server.models.prefix,
            chat_template=template,
        )


def _as_reached(http: HttpClient, dialect: Dialect, model: str) -> Dialect:
    """Return *dialect* without what this server, or a router before it, does not do."""
    if not _tokenizes(http, dialect, {dialect.tokenize: "a b"}, model):
        dialect = replace(dialect, tokenize="", tokenizes_chats=False)
    message = {"role": "user", "content": "a"}
    if dialect.tokenizes_chats and not _tokenizes(
        http, dialect, {"messages": [message]}, model
    ):
        dialect = replace(dialect, tokenizes_chats=False)
    if dialect.scores == "generate":
        info = _told(lambda: sglang_info(http))
        dialect = replace(
            dialect,
            scores="generate" if info else "",
            images=info.get("has_image_understanding") is not False,
        )
    if dialect.modalities:
        info = _told(lambda: an_object(ask(http, dialect.modalities), "the reply"))
        sees = an_optional_object(info.get("modalities")).get("vision")
        dialect = replace(dialect, images=sees is not False)
    return dialect


def _told(answer: Callable[[], Mapping[str, object]]) -> Mapping[str, object]:
    try:
        return answer()
    except BackendError:
        return {}


def _tokenizes(
    http: HttpClient, dialect: Dialect, what: Mapping[str, object], model: str
) -> bool:
    if not dialect.tokenize:
        return False
    try:
        return bool(_tokens(http, {"model": model, **what}))
    except BackendError:
        return False


def _tokens(http: HttpClient, asked: Mapping[str, object]) -> Sequence[int]:
    reply = an_object(http.post_json("/tokenize", asked), "the reply")
    return [a_count(one) for one in a_list(reply.get("tokens"), "tokens")]
