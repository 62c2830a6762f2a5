"""The need of a request: what it may take of rates and budgets, before it is sent."""

import threading
from dataclasses import dataclass, field

from sglrun.backends.base import (
    Backend,
    Request,
    SelectRequest,
    Usage,
    estimated_tokens,
)
from sglrun.errors import BackendError
from sglrun.lang.prompt import Prompt, VideoData

# What servers write around a prompt that a client does not see: marks of a turn, a
# system prompt of the model's own.
_OF_A_CHAT = 256
_OF_A_TURN = 16
# Models read an image as a few hundred to 16 thousand tokens, a video as more.
_OF_AN_IMAGE = 16_384
_OF_A_VIDEO = 65_536
_CAREFUL = 1.5
_SCORING_REQUESTS = 4
_OF_AN_OPTION = 8
_OF_A_CHOICE = 64
_LIMITS = ("max_tokens", "max_completion_tokens", "max_new_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What one request may take.

    Attributes:
        most: what it costs at most, as a usage.
        tokens: what it takes of a rate of tokens, likely.
    """

    most: Usage = field(default_factory=lambda: Usage(requests=1))
    tokens: float = 0.0


ONE_REQUEST = Need()
"""What a request takes where nothing of it is counted."""


class NeedCounter:
    """Tells what requests may take; safe from any thread.

    A tokenizer that the backend has counts; without one a text has at most one token
    a byte, and likely one for 4 bytes, times what answers have shown so far.
    """

    def __init__(self, backend: Backend, *, tokens: bool = True) -> None:
        """Count for *backend*; without *tokens* only requests."""
        self._backend = backend
        self._tokens = tokens
        self._lock = threading.Lock()
        self._factor = _CAREFUL

    def of_request(self, request: Request) -> Need:
        """Return what *request* may take; may ask the backend to count."""
        sampling = request.sampling
        given = sampling.extra or {}
        limits = [given[name] for name in _LIMITS if name in given]
        longest = max(
            sampling.max_new_tokens, *(n for n in limits if isinstance(n, int)), 1
        )
        # Some servers give one sample to a request, which others show only by trying.
        requests = sampling.n + 1 if sampling.n > 1 else 1
        most, likely = self._prompt(request.prompt)
        # Some servers read the schema as a part of the prompt.
        most += len(_encoded(sampling.json_schema or ""))
        return Need(
            most=Usage(
                requests=requests,
                prompt_tokens=requests * most,
                completion_tokens=requests * longest,
            ),
            tokens=likely + sampling.n * longest,
        )

    def of_select(self, request: SelectRequest) -> Need:
        """Return what *request* may take; may ask the backend to count."""
        most, likely = self._prompt(request.prompt)
        sizes = [len(_encoded(choice)) + _OF_AN_OPTION for choice in request.choices]
        written = max(sizes) + _OF_A_CHOICE
        if not self._backend.capabilities.choice_scores:
            usage = Usage(
                requests=2,
                prompt_tokens=2 * (most + sum(sizes)),
                completion_tokens=2 * written,
            )
            return Need(most=usage, tokens=likely + written)
        # The prompt alone, then with each option, perhaps all of that twice, and the
        # options alone.
        texts = 2 * (len(sizes) + 1) + 1
        return Need(
            most=Usage(
                requests=_SCORING_REQUESTS,
                prompt_tokens=texts * most + 3 * sum(sizes),
                completion_tokens=2 * texts + written,
            ),
            tokens=(len(sizes) + 2) * likely + sum(sizes),
        )

    def of_prefix(self, prompt: Prompt) -> Need:
        """Return what it may take to read *prompt* once."""
        most, likely = self._prompt(prompt)
        return Need(
            most=Usage(requests=1, prompt_tokens=most, completion_tokens=1),
            tokens=likely + 1,
        )

    def learn(self, prompt: Prompt, usage: Usage) -> None:
        """Take from the *usage* of an answer how many tokens texts have here."""
        if usage.requests != 1 or prompt.media:
            return
        shown = usage.prompt_tokens / (estimated_tokens(prompt.text) + _around(prompt))
        if shown > self._factor:
            with self._lock:
                self._factor = max(self._factor, shown)

    def _prompt(self, prompt: Prompt) -> tuple[int, float]:
        """Return how many tokens *prompt* has at most, and likely."""
        if not self._tokens:
            return 0, 0.0
        around = _around(prompt)
        counted = self._counted(prompt.text)
        if counted is not None:
            return counted + around, counted + around
        estimate = estimated_tokens(prompt.text) * self._factor
        return len(_encoded(prompt.text)) + around, estimate + around

    def _counted(self, text: str) -> int | None:
        if not self._backend.capabilities.token_counts:
            return None
        try:
            return self._backend.count_tokens(text)
        except BackendError:
            return None


def _around(prompt: Prompt) -> int:
    turns = len(prompt.messages) + (prompt.role is not None)
    seen = sum(
        _OF_A_VIDEO if isinstance(each, VideoData) else _OF_AN_IMAGE
        for each in prompt.media
    )
    written = (turns + 1) * _OF_A_TURN + (_OF_A_CHAT if prompt.is_chat else 0)
    return written + seen


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")
