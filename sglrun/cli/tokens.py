"""The tokens of a command: who counts them where no model need be asked."""

from dataclasses import dataclass

from sglrun.backends.base import Backend, estimated_tokens
from sglrun.backends.named_template import named_template
from sglrun.cli.backend import chosen_backend
from sglrun.config import RunConfig
from sglrun.errors import SglrunError
from sglrun.interpreter.sglang.lazy_backend import LazyBackend
from sglrun.lang.chat_template import DEFAULT_TEMPLATE, ChatTemplate


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCounter:
    """Who counts tokens, and in whose markup.

    Attributes:
        backend: counts exactly; without one it is an estimate.
        template: how roles are written.
    """

    backend: Backend | None
    template: ChatTemplate

    @property
    def name(self) -> str:
        """Who counts."""
        if self.backend is None or not self.backend.capabilities.token_counts:
            return "an estimate: 4 bytes a token"
        return f"counted by {self.backend.kind}, {self.backend.model}"

    @property
    def holds_prefixes(self) -> bool:
        """Whether a prefix sent once need not be read again."""
        return self.backend is not None and self.backend.capabilities.prefix_cache

    def count(self, text: str) -> int:
        """Return the number of tokens of *text*."""
        if not text:
            return 0
        if self.backend is None:
            return estimated_tokens(text)
        return self.backend.count_tokens(text)


def token_counter(config: RunConfig, offered: LazyBackend) -> TokenCounter:
    """Return who counts: the backend of a run, if it can be had without asking for it.

    A backend that the user names must open; without one, the embedded engine counts if
    it has a model.

    Raises:
        SglrunError: the named backend cannot be opened.
    """
    try:
        backend = chosen_backend(config, offered)
    except SglrunError:
        if config.names_backend:
            raise
        name = config.backend_options.chat_template
        template = DEFAULT_TEMPLATE if name is None else named_template(name)
        return TokenCounter(backend=None, template=template)
    return TokenCounter(backend=backend, template=backend.chat_template)
