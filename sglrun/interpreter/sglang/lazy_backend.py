"""A lazy backend: opened when it is first asked, so that naming one costs nothing.

It also carries what scripts written for SGLang ask of a backend object.
"""

import threading
from collections.abc import Callable, Mapping
from functools import cached_property

from sglrun.backends.base import (
    Backend,
    Capabilities,
    Completion,
    OnText,
    Request,
    Selection,
    SelectRequest,
    Usage,
)
from sglrun.lang.chat_template import ChatTemplate
from sglrun.lang.prompt import Prompt


class TokenUsage:
    """The tokens that a backend has counted since ``reset``; safe from any thread.

    Attributes:
        prompt_tokens: tokens read.
        completion_tokens: tokens generated.
    """

    def __init__(self) -> None:
        """Begin at nothing."""
        self._lock = threading.Lock()
        self.prompt_tokens = 0
        self.completion_tokens = 0

    def reset(self) -> None:
        """Begin at nothing again."""
        with self._lock:
            self.prompt_tokens = self.completion_tokens = 0

    def add(self, usage: Usage) -> None:
        """Count *usage* too."""
        with self._lock:
            self.prompt_tokens += usage.prompt_tokens
            self.completion_tokens += usage.completion_tokens

    def __repr__(self) -> str:
        """Return both counts."""
        return (
            f"TokenUsage(prompt_tokens={self.prompt_tokens}, "
            f"completion_tokens={self.completion_tokens})"
        )


class LazyBackend(Backend):
    """A backend that is made when it is first used; safe from any thread.

    ``chat_template`` may be set, as scripts do: it is what roles are then written in.

    Attributes:
        kind: its name in the table of backends.
        token_usage: what it has counted.
    """

    def __init__(self, kind: str, make: Callable[[], Backend]) -> None:
        """Remember how the backend is made.

        Args:
            kind: its name in the table of backends.
            make: makes it; called once, unless it raises.
        """
        self.kind = kind
        self.token_usage = TokenUsage()
        self._make = make
        self._lock = threading.Lock()
        self._made: Backend | None = None

    def opened(self) -> Backend:
        """Return the backend itself, made now if it has not been.

        Raises:
            SglrunError: it cannot be made.
        """
        with self._lock:
            if self._made is None:
                self._made = self._make()
            return self._made

    # Read from the backend once, and settable as the protocol has it: mypy takes a
    # cached property for one that is not.
    @cached_property
    def model(self) -> str:  # type: ignore[override]
        """The model that answers."""
        return self.opened().model

    @cached_property
    def chat_template(self) -> ChatTemplate:  # type: ignore[override]
        """How roles are written."""
        return self.opened().chat_template

    @cached_property
    def capabilities(self) -> Capabilities:  # type: ignore[override]
        """What it can do."""
        return self.opened().capabilities

    @cached_property
    def secrets(self) -> frozenset[str]:  # type: ignore[override]
        """What must not be written."""
        return self.opened().secrets

    def generate(self, request: Request, on_text: OnText | None = None) -> Completion:
        """Return the completion of *request*."""
        completion = self.opened().generate(request, on_text)
        self.token_usage.add(completion.usage)
        return completion

    def select(self, request: SelectRequest) -> Selection:
        """Return the scores of the options of *request*."""
        selection = self.opened().select(request)
        self.token_usage.add(selection.usage)
        return selection

    def check(self, request: Request | SelectRequest) -> None:
        """Let *request* pass if the backend could be asked for it."""
        self.opened().check(request)

    def cache_prefix(self, prompt: Prompt, *, only_scored: bool = False) -> Usage:
        """Have the model read *prompt* once."""
        usage = self.opened().cache_prefix(prompt, only_scored=only_scored)
        self.token_usage.add(usage)
        return usage

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of *text*."""
        return self.opened().count_tokens(text)

    def flush_cache(self) -> bool:
        """Forget cached prefixes; return whether the backend could."""
        return self.opened().flush_cache()

    def get_server_info(self) -> Mapping[str, object]:
        """Return what the server tells about itself."""
        # Benchmarks load a tokenizer by what SGLang's server tells.
        usual = {"model_path": self.model, "tokenizer_path": self.model}
        return {**usual, **self.opened().get_server_info()}

    get_server_args = get_server_info  # its name before SGLang 0.4.1

    def pause_s(self) -> float:
        """Return how long the server wants no other request, in seconds."""
        return self.opened().pause_s()

    def close(self) -> None:
        """Close the backend if it was made."""
        with self._lock:
            made, self._made = self._made, None
        if made is not None:
            made.close()

    @property
    def endpoint(self) -> "LazyBackend":
        """The backend itself: in SGLang a server's process has its client here."""
        return self

    @property
    def model_info(self) -> Mapping[str, object]:
        """What is known of the model, with ``model_path`` always."""
        return {"model_path": self.model, **self.get_server_info()}

    def get_model_name(self) -> str:
        """Return the model's name."""
        return self.model

    def shutdown(self) -> None:
        """Close the backend if it was made."""
        self.close()
