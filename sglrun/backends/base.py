"""The seam: what a backend is handed, and what it gives back.

Rule: a backend sees frozen requests, never a program's state. It makes one attempt; it
does not wait to try again (``batch/limits`` does), and it does not count rows.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, Self, runtime_checkable

from sglrun.backends.named_template import named_template
from sglrun.errors import UnsupportedFeatureError
from sglrun.lang.chat_template import DEFAULT_TEMPLATE, ChatTemplate
from sglrun.lang.choices import ChoiceScore
from sglrun.lang.prompt import Prompt
from sglrun.lang.sampling import SamplingParams

OnText = Callable[[str], None]
"""Receives the next piece of a generation's text, whole characters only.

A piece may be a ``StreamedText``.
"""

CTX_SIZE = 16384
"""Tokens that the embedded engine holds where nothing else is said."""


class StreamedText(str):
    """A piece of a generation's text, with what the server told when it sent it.

    Attributes:
        meta_info: in SGLang's keys; counts are those so far, and log-probabilities
            those of the tokens since the piece before.
    """

    __slots__ = ("meta_info",)
    meta_info: Mapping[str, object]

    def __new__(cls, text: str, meta_info: Mapping[str, object]) -> Self:
        """Return *text* with *meta_info* beside it."""
        made = super().__new__(cls, text)
        made.meta_info = meta_info
        return made


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What requests cost, in OpenAI's words. Usages add up.

    Attributes:
        requests: requests that were answered.
        prompt_tokens: tokens read, those of samples of one prompt counted once.
        cached_tokens: of these, how many the backend did not compute again.
        completion_tokens: tokens generated, over all samples.
    """

    requests: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0

    def __add__(self, other: Self) -> "Usage":
        """Return both together."""
        return Usage(
            requests=self.requests + other.requests,
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
        )

    def __sub__(self, other: Self) -> "Usage":
        """Return what is left of these without *other*, which is a part of them."""
        return Usage(
            requests=self.requests - other.requests,
            prompt_tokens=self.prompt_tokens - other.prompt_tokens,
            cached_tokens=self.cached_tokens - other.cached_tokens,
            completion_tokens=self.completion_tokens - other.completion_tokens,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One generation: all that a backend may know about it.

    Attributes:
        prompt: the text and messages so far; an open assistant turn may hold text
            that the generation continues.
        sampling: complete: every field that has a default is set.
        branch: the fork that asks, and the forks around it, each by its number; equal
            requests of one program are told apart by it.
    """

    prompt: Prompt
    sampling: SamplingParams
    branch: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One generated text.

    Attributes:
        text: without the stop string.
        finish_reason: ``stop``, ``length``, or another of the server's words.
        meta_info: what else the backend tells, in SGLang's keys where they exist.
    """

    text: str
    finish_reason: str
    meta_info: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """The answer to a ``Request``: ``n`` samples, at least one, and what they cost."""

    samples: tuple[Sample, ...]
    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectRequest:
    """A choice to be scored after a prompt.

    Attributes:
        prompt: what stands before the option.
        choices: the options; at least one.
        unconditional: score the options' tokens without the prompt too.
        needs_scores: an option that the model only writes is no answer, as where one
            is drawn by the scores.
        branch: as in ``Request``.
    """

    prompt: Prompt
    choices: tuple[str, ...]
    unconditional: bool = False
    needs_scores: bool = False
    branch: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The answer to a ``SelectRequest``: scores, or only the option that came out.

    Attributes:
        scores: one for each option, in their order; empty where the backend can only
            be made to write one of them.
        chosen: the option written by constrained decoding, where ``scores`` is empty.
        usage: what it cost.
    """

    scores: tuple[ChoiceScore, ...] = ()
    chosen: str | None = None
    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a backend can do exactly; checked before the first row.

    Attributes:
        completion: prompts without roles.
        prefill: text in the assistant turn before a generation.
        regex: generations held to a pattern.
        json_schema: generations held to a schema.
        ebnf: generations held to a grammar.
        choice_scores: ``select`` by log-probabilities.
        select: ``select`` at all.
        images: images in the prompt.
        videos: videos in the prompt.
        video_frames: a program may say how many frames of them the model sees.
        prefix_cache: a prefix sent once is not computed again.
        token_counts: ``count_tokens`` is exact.
        checks_constraints: ``check`` tells whether a constraint can be followed.
        concatenation: joined branches are put together from what was computed of each.
        unsupported_sampling: sampling fields that the backend cannot honour.
    """

    completion: bool = True
    prefill: bool = True
    regex: bool = True
    json_schema: bool = True
    ebnf: bool = False
    choice_scores: bool = True
    select: bool = True
    images: bool = False
    videos: bool = False
    video_frames: bool = False
    prefix_cache: bool = False
    token_counts: bool = False
    checks_constraints: bool = False
    concatenation: bool = False
    unsupported_sampling: frozenset[str] = frozenset()


@runtime_checkable
class Backend(Protocol):
    """The model side. Every method may be called from many threads at once and waits.

    Attributes:
        kind: its name in the table of backends.
        server: what answers there, where its kind does not say it.
        model: the model that answers, as results and manifests name it.
        chat_template: how roles are written in ``Prompt.text``.
        capabilities: what it can do.
        secrets: texts that must not be written, such as its key.
    """

    kind: str
    server: str = ""
    model: str
    chat_template: ChatTemplate = DEFAULT_TEMPLATE
    capabilities: Capabilities = Capabilities()
    secrets: frozenset[str] = frozenset()

    def generate(self, request: Request, on_text: OnText | None = None) -> Completion:
        """Return the completion of *request*.

        Args:
            request: what to complete.
            on_text: called with each piece of the first sample's text as it comes; the
                pieces joined are that sample's text.

        Raises:
            BackendError: no usable answer came.
        """
        ...

    def select(self, request: SelectRequest) -> Selection:
        """Return the scores of the options of *request*.

        Raises:
            BackendError: no usable answer came, or it cannot be done.
        """
        raise UnsupportedFeatureError(
            f"{self.kind!r} cannot choose among {request.choices!r}"
        )

    def check(self, request: Request | SelectRequest) -> None:
        """Let *request* pass if it could be asked; asks nothing.

        Raises:
            BackendError: what asking would raise whatever the server says.
        """
        del request

    def cache_prefix(self, prompt: Prompt, *, only_scored: bool = False) -> Usage:
        """Have the model read *prompt* once, so that later prompts start from it.

        *only_scored*: as far as is known, nothing is generated after it.

        Raises:
            BackendError: it could not; a run goes on without.
        """
        del only_scored
        raise UnsupportedFeatureError(
            f"{self.kind!r} cannot cache a prefix of {len(prompt.text)} characters"
        )

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of *text*; an estimate without a tokenizer."""
        return estimated_tokens(text)

    def flush_cache(self) -> bool:
        """Forget cached prefixes; return whether the backend could."""
        return False

    def get_server_info(self) -> Mapping[str, object]:
        """Return what the server tells about itself."""
        return {}

    def of_row(self) -> "Backend":
        """Return the backend as one row is to see it; the requests of a row share."""
        return self

    def pause_s(self) -> float:
        """Return how long the server wants no other request, in seconds."""
        return 0.0

    def close(self) -> None:
        """Let go of connections, threads and memory; safe to call twice."""
        return  # mypy reads an empty body as abstract

    def __enter__(self) -> Self:
        """Return the backend itself."""
        return self

    def __exit__(self, *exc: object) -> None:
        """Close."""
        self.close()


def estimated_tokens(text: str) -> int:
    """Return how many tokens *text* may be: one for 4 bytes."""
    return -(-len(text.encode("utf-8", "replace")) // 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """A key that never shows in a log, an error or a file."""

    value: str = field(repr=False)

    def __str__(self) -> str:
        """Return a stand-in."""
        return "***"


class Key(Protocol):
    """A key: its text, which may be found out only when it is needed."""

    @property
    def value(self) -> str:
        """The text; raises ``ConfigError`` where it cannot be found out."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendOptions:
    """What a user says about a backend; each kind reads what it knows.

    Attributes:
        model: a name on the server, or a path for the embedded engine.
        url: the server's address; a query in it goes with every request.
        more_urls: addresses of further servers, which answer alike.
        api_key: sent as the server wants it.
        headers: sent with every request.
        timeout_s: seconds until an answer must be complete.
        chat_template: a template's name, or the path of a ``tokenizer_config.json``
            or a Jinja file, over the model's own.
        exact: the embedded engine's answers do not depend on what runs beside them;
            a server's are its own matter.
        ctx_size: tokens that the embedded engine holds at once, over all requests.
    """

    model: str | None = None
    url: str | None = None
    more_urls: tuple[str, ...] = ()
    api_key: Key | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = 600.0
    chat_template: str | None = None
    exact: bool = True
    ctx_size: int = CTX_SIZE


def template_of(options: BackendOptions) -> ChatTemplate | None:
    """Return the chat template that *options* name; raises as ``named_template``."""
    return named_template(options.chat_template) if options.chat_template else None
