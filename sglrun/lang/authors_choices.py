"""The author's choices method: a callable of SGLang's kind, as a method of sglrun's."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sglrun.lang.choices import (
    CHOICES_METHODS,
    ChoiceScore,
    ChoicesDecision,
    ChoicesMethod,
    token_length_normalized,
)


@dataclass(frozen=True, slots=True)
class Decision:
    """What an author's method returns: SGLang's ``ChoicesDecision``.

    Attributes:
        decision: the option taken.
        meta_info: what else is told about it.
    """

    decision: str
    meta_info: Mapping[str, object] = field(default_factory=dict)


class ChoicesSamplingMethod:
    """What an author's method may inherit from.

    It is called with ``choices``, ``normalized_prompt_logprobs``,
    ``input_token_logprobs``, ``output_token_logprobs`` and
    ``unconditional_token_logprobs``, and returns a ``Decision``. The log-probabilities
    are those of each option's own tokens: (log-probability, token, text).
    """

    @property
    def requires_unconditional_logprobs(self) -> bool:
        """Whether it needs the options' log-probabilities without the prompt."""
        return False

    def __call__(self, **logprobs: Any) -> Any:
        """Take one of the options."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it takes")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorsMethod(ChoicesMethod):
    """A method that takes an option itself, by no score that others could use.

    Attributes:
        author: the author's callable.
    """

    author: Callable[..., Any]

    def __call__(
        self,
        options: tuple[ChoiceScore, ...],
        *,
        temperature: float = 0.0,
        seed: int | None = None,
    ) -> ChoicesDecision:
        """Return what the author's callable takes among *options*.

        Raises:
            ValueError: it takes none of them.
        """
        del temperature, seed
        told = self.author(
            choices=[option.choice for option in options],
            normalized_prompt_logprobs=[option.mean for option in options],
            input_token_logprobs=[_tokens(option) for option in options],
            output_token_logprobs=[[] for _ in options],
            unconditional_token_logprobs=(
                [_unconditional(option) for option in options]
                if self.requires_unconditional_logprobs
                else None
            ),
        )
        if told.decision not in [option.choice for option in options]:
            raise ValueError(f"{self.name} takes {told.decision!r}, which is no choice")
        scores, _ = self.score(options)
        return ChoicesDecision(told.decision, scores, dict(told.meta_info or {}))


def choices_method(given: object) -> ChoicesMethod:
    """Return the method that an author means by *given*.

    Args:
        given: a method, its name, ``None`` for the default, or a callable such as
            ``ChoicesSamplingMethod`` describes.

    Raises:
        TypeError: it is none of these.
        ValueError: no method has this name.
    """
    if given is None:
        return token_length_normalized
    if isinstance(given, ChoicesMethod):
        return given
    if isinstance(given, str):
        if given not in CHOICES_METHODS:
            known = ", ".join(CHOICES_METHODS)
            raise ValueError(f"unknown choices method {given!r} (one of: {known})")
        return CHOICES_METHODS[given]
    if not (callable(given) and hasattr(given, "requires_unconditional_logprobs")):
        raise TypeError(
            f"a choices method is one of {', '.join(CHOICES_METHODS)}, or a callable "
            f"with requires_unconditional_logprobs, not {given!r}"
        )
    return AuthorsMethod(
        name=getattr(given, "__name__", type(given).__name__),
        score=token_length_normalized.score,
        requires_unconditional_logprobs=bool(given.requires_unconditional_logprobs),
        author=given,
    )


def _tokens(option: ChoiceScore) -> list[tuple[float, int, str]]:
    return [(token.logprob, token.token_id, token.text) for token in option.tokens]


def _unconditional(option: ChoiceScore) -> list[tuple[float, int, str]]:
    logprobs = option.unconditional or ()
    return [
        (logprob, token.token_id, token.text)
        for logprob, token in zip(logprobs, option.tokens, strict=False)
    ]
