"""The reading of a prompt: its tokens, and what has to be put together for it first."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from sglrun.backends.local.composition import TokenJoin, compose
from sglrun.backends.local.job import Job, JoinLostError
from sglrun.backends.local.limits import Limits
from sglrun.backends.local.radix import Node, Tokens
from sglrun.backends.local.runtime import Runtime
from sglrun.errors import BackendError
from sglrun.lang.prompt import Prompt

Answer = TypeVar("Answer")

_TRIES = 4


@dataclass(frozen=True, slots=True)
class ReadPrompt:
    """A prompt as tokens.

    Attributes:
        tokens: as they stand in the tree.
        joined: the first so many were put together and cannot be computed as they are.
        computed: tokens that were computed for that.
        kept: what is kept of it until a job begins.
    """

    tokens: Tokens
    joined: int
    computed: int
    kept: tuple[Node, ...] = ()

    def hand_to(self, job: Job) -> None:
        """Let *job*, whose prompt this is, go on from what was put together."""
        job.joined, job.kept = self.joined, self.kept


def read_prompt(
    runtime: Runtime, prompt: Prompt, limits: Limits, *, new: int
) -> ReadPrompt:
    """Return the tokens of *prompt*, its joined branches put together; waits for them.

    Raises:
        BadRequestError: with *new* more they are more than there is room for.
        BackendError: there is no room for the branches, or the engine is closed.
    """
    tokenizer = runtime.tokenizer
    tokens: Tokens
    joins: tuple[TokenJoin, ...] = ()
    if prompt.joins and runtime.engine.can_join:
        tokens, joins = compose(
            prompt,
            size=tokenizer.size,
            encode=tokenizer.encode,
            encode_prompt=tokenizer.encode_prompt,
        )
    else:
        tokens = tokenizer.encode_prompt(prompt.text)
    limits.check_prompt(len(tokens), new)
    kept: list[Node] = []
    computed = 0
    try:
        for join in joins:
            node, number = runtime.engine.join(join)
            kept.append(node)
            computed += number
    except BaseException:
        runtime.engine.let_go(kept)
        raise
    known = len(joins[-1].whole) if joins else 0
    return ReadPrompt(tokens, min(known, len(tokens) - 1), computed, tuple(kept))


def again_if_lost(ask: Callable[[], Answer]) -> Answer:
    """Return what *ask* does; again, where what it had joined was pushed out.

    Raises:
        BackendError: it is pushed out each time.
    """
    for _ in range(_TRIES):
        with suppress(JoinLostError):
            return ask()
    raise BackendError(
        "no room to keep what was joined: run fewer rows at once, or leave out "
        "--parallel-encoding"
    )
