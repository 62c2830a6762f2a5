"""The plan: what all rows begin with, sent once before them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from sglrun.backends.base import Backend, Usage
from sglrun.batch.refused import look
from sglrun.batch.trial import try_constraints
from sglrun.errors import BackendError
from sglrun.interpreter.program import Program
from sglrun.interpreter.tracing.inert import is_inert
from sglrun.interpreter.tracing.tracer import Trace, TracedPrefix, trace_program
from sglrun.interpreter.tracing.value import Fragment
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
        tried: what trying the constraints of generations cost.
        known: the first prompt as far as it is known, with the arguments in it.
        refused: why no row can succeed, where the backend cannot do what each asks.
    """

    text: str = ""
    tokens: int = 0
    ended_by: str = ""
    where: str | None = None
    usage: Usage | None = None
    tried: Usage = Usage()  # noqa: RUF009 - frozen
    known: tuple[Fragment, ...] = ()
    refused: BackendError | None = None

    @property
    def cost(self) -> Usage:
        """What was spent before the rows."""
        return self.tried + (self.usage or Usage())


def create_plan(
    program: Program,
    backend: Backend,
    *,
    given: Iterable[str],
    on_note: Callable[[str], None],
    sampling: SamplingParams,
    approximate: bool = False,
    trace: bool = True,
    send: bool = True,
) -> Plan:
    """Look at *program* and send what all rows begin with; waits.

    Its function is called with placeholders: to its end where its code changes nothing
    else, so that all it asks is looked at; otherwise up to its first generation.
    Neither that nor a backend that refuses the prefix stops a run; a note tells.

    Args:
        program: what is run.
        backend: where it is sent, if that can hold a prefix.
        given: the arguments that the first row gives.
        on_note: told what a user should know.
        sampling: the run's parameters.
        approximate: what the backend can do nearly is to be done so.
        trace: call the function though its code may change something.
        send: send the prefix, and try constraints; otherwise only look.
    """
    whole = is_inert(program)
    traced = None
    if trace or whole:
        traced = trace_program(
            program, template=backend.chat_template, given=given, whole=whole
        )
    plan = Plan() if traced is None else _planned(traced.prefix, backend)
    asked = () if traced is None else traced.asked
    if program.num_api_spec_tokens:  # text before a generation may be written ahead
        asked = ()
    found = look(
        program, backend, asked=asked, sampling=sampling, approximate=approximate
    )
    for note in found.notes:
        on_note(note)
    if found.refused is not None or traced is None or not send:
        return replace(plan, refused=found.refused)
    trial = try_constraints(backend, asked)
    plan = replace(plan, tried=trial.usage, refused=trial.refused)
    if trial.refused is not None:
        return plan
    return replace(plan, usage=_sent(plan, traced, backend, on_note))


def _planned(prefix: TracedPrefix, backend: Backend) -> Plan:
    text = prefix.prompt.text
    return Plan(
        text=text,
        tokens=_count_tokens(backend, text),
        ended_by=prefix.ended_by,
        where=prefix.where,
        known=prefix.known,
    )


def _sent(
    plan: Plan, traced: Trace, backend: Backend, on_note: Callable[[str], None]
) -> Usage | None:
    """Send the prefix; return what that cost, if it is worth it and possible."""
    if not backend.capabilities.prefix_cache:
        return None
    if not is_worth_sending(plan.text, plan.tokens):
        place = f" ({plan.where})" if plan.where else ""
        on_note(
            f"no shared prefix is sent first: {len(plan.text)} characters come before "
            f"{plan.ended_by}{place}"
        )
        return None
    try:
        return backend.cache_prefix(
            traced.prefix.prompt, only_scored=traced.only_selects
        )
    except BackendError as exc:
        on_note(f"the shared prefix is not sent first: {exc}")
        return None


def is_worth_sending(text: str, tokens: int) -> bool:
    """Return whether the prefix *text* of so many *tokens* is worth a request."""
    return len(text) > SHORTEST_PREFIX or tokens > FEWEST_TOKENS


def _count_tokens(backend: Backend, text: str) -> int:
    if not text:
        return 0
    try:
        return backend.count_tokens(text)
    except BackendError:
        return Backend.count_tokens(backend, text)
