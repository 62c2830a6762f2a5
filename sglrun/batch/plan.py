"""The plan: what all rows begin with, sent once before them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sglrun.backends.base import Backend, Usage
from sglrun.batch.refused import plain_refusal, refusal_of
from sglrun.errors import BackendError
from sglrun.interpreter.program import Program
from sglrun.interpreter.tracing.graph import Fragment
from sglrun.interpreter.tracing.tracer import trace_prefix
from sglrun.lang.sampling import SamplingParams

SHORTEST_PREFIX = 64
FEWEST_TOKENS = 16
"""A prefix of so few characters or fewer, and of so few tokens, is no request worth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The prefix that all rows share, and what became of it.

    Attributes:
        text: the shared prefix.
        tokens: its tokens, estimated where the backend cannot count.
        ended_by: what comes after it, in words.
        where: the author's line that brings it, as ``prog.py:12``.
        usage: what sending it cost; ``None`` if it was not sent.
        known: the first prompt as far as it is known, with the arguments in it.
        refused: why no row can succeed, where the backend cannot do what each asks.
    """

    text: str = ""
    tokens: int = 0
    ended_by: str = ""
    where: str | None = None
    usage: Usage | None = None
    known: tuple[Fragment, ...] = ()
    refused: BackendError | None = None


def create_plan(
    program: Program,
    backend: Backend,
    *,
    given: Iterable[str],
    on_note: Callable[[str], None],
    sampling: SamplingParams,
    send: bool = True,
) -> Plan:
    """Trace *program* and send what all rows begin with; waits.

    The author's function is called once with placeholders. Neither that nor a backend
    that refuses stops a run; a note tells.

    Args:
        program: what is run.
        backend: where it is sent, if that can hold a prefix.
        given: the arguments that the first row gives.
        on_note: told what a user should know.
        sampling: the run's parameters.
        send: send it; otherwise only trace.
    """
    traced = trace_prefix(program, template=backend.chat_template, given=given)
    text = traced.prompt.text
    tokens = _count_tokens(backend, text)
    usage = refused = None
    if traced.asks is not None and not program.num_api_spec_tokens:
        refused = refusal_of(backend, traced.asks, sampling)
    refused = refused or plain_refusal(backend, program)
    if refused is not None or not (send and backend.capabilities.prefix_cache):
        pass
    elif len(text) <= SHORTEST_PREFIX and tokens <= FEWEST_TOKENS:
        place = f" ({traced.where})" if traced.where else ""
        on_note(
            f"no shared prefix is sent first: {len(text)} characters come before "
            f"{traced.ended_by}{place}"
        )
    else:
        try:
            usage = backend.cache_prefix(traced.prompt)
        except BackendError as exc:
            on_note(f"the shared prefix is not sent first: {exc}")
    return Plan(
        text=text,
        tokens=tokens,
        ended_by=traced.ended_by,
        where=traced.where,
        usage=usage,
        known=traced.known,
        refused=refused,
    )


def _count_tokens(backend: Backend, text: str) -> int:
    if not text:
        return 0
    try:
        return backend.count_tokens(text)
    except BackendError:
        return Backend.count_tokens(backend, text)
