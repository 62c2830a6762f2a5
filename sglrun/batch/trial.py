"""The trial: what generations are held to, compiled once by the server before the rows.

A server tells only by an answer whether it can follow a pattern or a schema. It is
asked for one token under each; a refusal counts where the same without it is answered.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from sglrun.backends.base import Backend, Request, Usage
from sglrun.errors import BackendError, BadRequestError, UnsupportedFeatureError
from sglrun.interpreter.tracing.marks import has_mark
from sglrun.interpreter.tracing.trace_end import Asked
from sglrun.lang import ir
from sglrun.lang.chat_template import ChatTemplate
from sglrun.lang.prompt import Prompt
from sglrun.lang.sampling import DEFAULTS, SamplingParams

_MOST = 8
_CONSTRAINTS = ("regex", "json_schema", "ebnf")
_ONE_TOKEN = SamplingParams.of(max_new_tokens=1, temperature=0)


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of trying constraints: why no row can succeed, if so, and the cost."""

    refused: BackendError | None = None
    usage: Usage = Usage()  # noqa: RUF009 - frozen


def try_constraints(backend: Backend, asked: Iterable[Asked]) -> Trial:
    """Have *backend* follow each constraint of what every row asks; waits.

    Nothing is asked of a backend whose ``check`` tells. What fails for another reason
    than the constraint is left to the rows.
    """
    usage = Usage()
    if backend.capabilities.checks_constraints:
        return Trial()
    for one, constraint in _distinct(asked)[:_MOST]:
        prompt = _shortest(backend.chat_template, is_chat=one.prompt.is_chat)
        try:
            usage += _cost(backend, prompt, constraint)
        except BadRequestError as exc:
            try:
                usage += _cost(backend, prompt, SamplingParams())
            except BackendError:
                continue
            place = f"{one.where}: " if one.where else ""
            (name,) = constraint.given()
            refused = UnsupportedFeatureError(
                f"{place}{backend.kind!r} with the model {backend.model!r} cannot "
                f"follow this {name}: {exc}"
            )
            return Trial(refused, usage)
        except BackendError:
            continue
    return Trial(None, usage)


def _distinct(asked: Iterable[Asked]) -> list[tuple[Asked, SamplingParams]]:
    """Return the constraints that every row comes to, each once."""
    found: dict[SamplingParams, Asked] = {}
    for one in asked:
        if not (one.is_sure and isinstance(one.piece, ir.Gen)):
            continue
        given = one.piece.sampling.given()
        held = {name: given[name] for name in _CONSTRAINTS if name in given}
        if held and not any(map(has_mark, held.values())):
            found.setdefault(SamplingParams(**held), one)
    return [(one, constraint) for constraint, one in found.items()]


def _shortest(template: ChatTemplate, *, is_chat: bool) -> Prompt:
    prompt = Prompt(template=template)
    if not is_chat:
        return prompt.with_text(".")
    asked = prompt.with_role_begin("user").with_text(".").with_role_end("user")
    return asked.with_role_begin("assistant")


def _cost(backend: Backend, prompt: Prompt, constraint: SamplingParams) -> Usage:
    sampling = constraint.over(_ONE_TOKEN, DEFAULTS)
    return backend.generate(Request(prompt=prompt, sampling=sampling)).usage
