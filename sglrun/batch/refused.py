"""What every row asks, refused by name before any row asks it."""

from sglrun.backends.base import Backend, Request, SelectRequest
from sglrun.errors import BackendError, UnsupportedFeatureError
from sglrun.interpreter.program import Program
from sglrun.interpreter.tracing.marks import has_mark
from sglrun.interpreter.tracing.plain_calls import plain_calls
from sglrun.interpreter.tracing.trace_end import Asked
from sglrun.lang import ir
from sglrun.lang.sampling import DEFAULTS, SamplingParams


def refusal_of(
    backend: Backend, asked: Asked, sampling: SamplingParams
) -> BackendError | None:
    """Return why *backend* cannot do what every row asks first; asks nothing.

    Args:
        backend: the model side.
        asked: what every row asks.
        sampling: the run's parameters.
    """
    try:
        _check(backend, asked, sampling)
    except UnsupportedFeatureError as exc:
        place = f"{asked.where}: " if asked.where else ""
        return UnsupportedFeatureError(f"{place}{exc}")
    except BackendError:
        return None  # of this prompt, in which the row's values are not
    return None


def plain_refusal(backend: Backend, program: Program) -> BackendError | None:
    """Return why *backend* cannot do what *program* says in the open; asks nothing."""
    for call in plain_calls(program):
        if not getattr(backend.capabilities, call.feature):
            return UnsupportedFeatureError(
                f"{call.where}: {backend.kind!r} with the model {backend.model!r} "
                f"cannot do {call.words}; use another backend, or leave it out"
            )
    return None


def _check(backend: Backend, asked: Asked, sampling: SamplingParams) -> None:
    piece, prompt = asked.piece, asked.prompt
    sees = backend.capabilities.images
    if not sees and (prompt.images or isinstance(piece, ir.Image)):
        raise UnsupportedFeatureError(
            f"{backend.kind!r} with the model {backend.model!r} takes no images; "
            "use a model that sees them"
        )
    if isinstance(piece, ir.Select):
        if not any(map(has_mark, piece.choices)):
            unconditional = piece.method.requires_unconditional_logprobs
            backend.check(
                SelectRequest(
                    prompt=prompt, choices=piece.choices, unconditional=unconditional
                )
            )
    elif isinstance(piece, ir.Gen):
        own = piece.sampling.given().values()
        if not any(isinstance(value, str) and has_mark(value) for value in own):
            resolved = piece.sampling.over(sampling).over(DEFAULTS)
            backend.check(Request(prompt=prompt, sampling=resolved))
