"""The limits of a model: what it can never be asked, whatever stands before it."""

import re
from dataclasses import dataclass

from sglrun.errors import BadRequestError
from sglrun.lang.sampling import SamplingParams


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What there is of a model.

    Attributes:
        vocabulary: its number of tokens.
        length: tokens that a prompt and its answer may have together.
        is_narrowed: the model could hold more, if it were given the memory.
    """

    vocabulary: int
    length: int
    is_narrowed: bool = False

    def check(self, sampling: SamplingParams) -> None:
        """Let complete parameters pass if the model can follow them.

        A stop token that the vocabulary has not passes: it is never drawn.

        Raises:
            BadRequestError: it cannot, whatever the prompt.
        """
        least, most = sampling.min_new_tokens, sampling.max_new_tokens
        if least > most:
            raise BadRequestError(
                f"min_new_tokens={least} is more than max_new_tokens={most}"
            )
        self._check_room(f"max_new_tokens={most}", most)
        stop_patterns(sampling.stop_regex)
        for token in sampling.logit_bias or ():
            if not 0 <= token < self.vocabulary:
                raise BadRequestError(
                    f"logit_bias of token {token}: the model's tokens are those from 0 "
                    f"to {self.vocabulary - 1}"
                )
        count = sampling.top_logprobs_num or 0
        if sampling.return_logprob and count > self.vocabulary:
            raise BadRequestError(
                f"top_logprobs_num={count} is more than the {self.vocabulary} tokens "
                "that the model has"
            )

    def check_prompt(self, count: int, new: int) -> None:
        """Let a prompt of *count* tokens pass if *new* more fit after it.

        Raises:
            BadRequestError: they do not.
        """
        if count + new > self.length:
            raise BadRequestError(
                f"prompt of {count} tokens and {new} new ones do not fit into the "
                f"{self.length} {self._whose}: shorten the prompt or lower "
                f"max_new_tokens{self._or_raise('it')}"
            )

    def check_option(self, choice: str, count: int) -> None:
        """Let the option *choice* of *count* tokens pass if it can be scored.

        Raises:
            BadRequestError: it has no tokens, or too many.
        """
        if not count:
            raise BadRequestError(f"the choice {choice!r} has no tokens to score")
        self._check_room(f"a choice of {count} tokens", count)

    def _check_room(self, what: str, count: int) -> None:
        if count >= self.length:
            raise BadRequestError(
                f"{what} leaves no room for a prompt in the {self.length} tokens "
                f"{self._whose}: ask for less{self._or_raise('that')}"
            )

    @property
    def _whose(self) -> str:
        return "of --ctx-size" if self.is_narrowed else "of the model"

    def _or_raise(self, what: str) -> str:
        return f", or raise {what}" if self.is_narrowed else ""


def stop_patterns(given: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    """Return the patterns of ``stop_regex``, compiled.

    Raises:
        BadRequestError: one of them is not a pattern.
    """
    try:
        return tuple(re.compile(pattern) for pattern in given)
    except re.error as exc:
        raise BadRequestError(f"stop_regex {exc.pattern!r}: {exc}") from exc
