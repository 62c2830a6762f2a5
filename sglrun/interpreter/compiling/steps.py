"""Steps: the expressions that the steps of a plan stand for."""

from collections.abc import Callable

from sglrun.interpreter.tracing.graph import Node
from sglrun.interpreter.tracing.value import Value, said
from sglrun.lang import ir
from sglrun.lang.choices import CHOICES_METHODS
from sglrun.lang.constraints import dtype_of
from sglrun.lang.prompt import ImageData, VideoData
from sglrun.lang.reasoning import reasoning_format
from sglrun.lang.sampling import SamplingParams

Known = Callable[[Value], object]


def expression(step: Node, known: Known) -> ir.Piece | None:
    """Return what *step* adds to its prompt; ``None`` if it adds nothing.

    Args:
        step: a step of a plan.
        known: tells the values in it.
    """
    make = _MADE.get(step.kind)
    return None if make is None else make(step, known)


def _text(step: Node, known: Known) -> ir.Piece:
    return ir.Text(said(step.fragments, known))


def _image(step: Node, known: Known) -> ir.Piece:
    if step.image is not None:
        return ir.Image(step.image)
    url, about = said(step.fragments, known), step.parameters
    if "video" in about:
        frames = about["num_frames"]
        assert frames is None or isinstance(frames, int), "as described"  # noqa: S101
        return ir.Image(VideoData(url=url, num_frames=frames))
    return ir.Image(ImageData(url=url))


def _gen(step: Node, known: Known) -> ir.Piece:
    del known
    given = dict(step.parameters)
    dtype, typed = given.pop("dtype", None), given.pop("typed", False)
    reasoning = given.pop("reasoning", None)
    return ir.Gen(
        name=step.name,
        sampling=SamplingParams.of(**given),
        dtype=None if dtype is None else dtype_of(dtype),
        typed=bool(typed),
        reasoning=None if reasoning is None else reasoning_format(str(reasoning)),
    )


def _select(step: Node, known: Known) -> ir.Piece:
    temperature = step.parameters.get("temperature", 0.0)
    return ir.Select(
        name=step.name,
        choices=tuple(said(choice, known) for choice in step.choices),
        method=CHOICES_METHODS[str(step.parameters["choices_method"])],
        temperature=float(str(temperature)),
    )


_MADE: dict[str, Callable[[Node, Known], ir.Piece]] = {
    "text": _text,
    "image": _image,
    "generate": _gen,
    "select": _select,
    "role": lambda step, _: ir.RoleBegin(str(step.name)),
    "role_end": lambda step, _: ir.RoleEnd(str(step.name)),
    "scope": lambda step, _: ir.VarScopeBegin(str(step.name)),
    "scope_end": lambda step, _: ir.VarScopeEnd(str(step.name)),
}
