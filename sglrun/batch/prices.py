"""The prices: what tokens cost."""

from dataclasses import dataclass

from sglrun.backends.base import Usage

_MILLION = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """What a million tokens cost, in any currency; cached ones as prompt if unsaid."""

    prompt: float
    completion: float
    cached: float | None = None

    def cost(self, usage: Usage) -> float:
        """Return what *usage* cost."""
        cached = self.prompt if self.cached is None else self.cached
        read = usage.prompt_tokens - usage.cached_tokens
        return (
            read * self.prompt
            + usage.cached_tokens * cached
            + usage.completion_tokens * self.completion
        ) / _MILLION

    def most(self, usage: Usage) -> float:
        """Return what *usage* may cost at most, whatever of it is cached."""
        dearest = max(self.prompt, self.cached or 0.0)
        return (
            usage.prompt_tokens * dearest + usage.completion_tokens * self.completion
        ) / _MILLION
