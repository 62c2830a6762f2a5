"""A backend that stands before another one, and passes on what it does not do itself.

Rule: all that a backend may be asked is passed on here, so that what stands before it
hides nothing of it.
"""

from collections.abc import Mapping

from sglrun.backends.base import (
    Backend,
    Completion,
    OnText,
    Request,
    Selection,
    SelectRequest,
    Usage,
)
from sglrun.lang.prompt import Prompt


class PassingBackend(Backend):
    """Says and does what the backend behind it does; that one is not closed with it."""

    def __init__(self, backend: Backend) -> None:
        """Stand before *backend*."""
        self.kind = backend.kind
        self.server = backend.server
        self.model = backend.model
        self.chat_template = backend.chat_template
        self.capabilities = backend.capabilities
        self.secrets = backend.secrets
        self._backend = backend

    def generate(self, request: Request, on_text: OnText | None = None) -> Completion:
        """Return the completion of *request*."""
        return self._backend.generate(request, on_text)

    def select(self, request: SelectRequest) -> Selection:
        """Return the scores of the options of *request*."""
        return self._backend.select(request)

    def check(self, request: Request | SelectRequest) -> None:
        """Let *request* pass if the backend could be asked for it."""
        self._backend.check(request)

    def cache_prefix(self, prompt: Prompt, *, only_scored: bool = False) -> Usage:
        """Have the model read *prompt* once."""
        return self._backend.cache_prefix(prompt, only_scored=only_scored)

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of *text*."""
        return self._backend.count_tokens(text)

    def flush_cache(self) -> bool:
        """Forget cached prefixes; return whether the backend could."""
        return self._backend.flush_cache()

    def get_server_info(self) -> Mapping[str, object]:
        """Return what the server tells about itself."""
        return self._backend.get_server_info()

    def pause_s(self) -> float:
        """Return how long the server wants no other request, in seconds."""
        return self._backend.pause_s()
