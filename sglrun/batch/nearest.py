"""The nearest: how a backend does what it cannot do exactly, where a user allows that.

Rule: each way is written here, with the words by which results name it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from sglrun.backends.base import Capabilities, Completion, Request, SelectRequest
from sglrun.backends.reply import check_constraint
from sglrun.lang.sampling import DEFAULTS, SamplingParams

WRITTEN = "select: the option that the model wrote, not the best by its scores"
"""The one that needs no leave: it is what ``select`` is where there are no scores."""

FRAMES = "video: the server takes as many frames as it is set to"

LEFT_OUT = (
    "top_p",
    "top_k",
    "min_p",
    "frequency_penalty",
    "presence_penalty",
    "repetition_penalty",
    "logit_bias",
    "seed",
    "min_new_tokens",
    "ignore_eos",
)
"""Sampling that changes only which of its texts a model writes."""

CHECKED = ("regex", "json_schema")
"""Constraints that a text can be checked against once it is there."""

APPROXIMATIONS: Mapping[str, str] = {
    "select": "the model writes an option, instead of scoring each; a method or a "
    "temperature is left out",
    ", ".join(CHECKED): "the model writes freely; a text that does not fit fails its "
    "row",
    "num_frames": "the server takes as many frames of a video as it is set to",
    ", ".join(LEFT_OUT): "left out",
}
"""What is done instead, for a reader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearest:
    """A request that a backend can do, and what of the asked one it is not.

    Attributes:
        request: what is asked instead.
        said: what is not exact, in words.
    """

    request: Request
    said: tuple[str, ...] = ()


def nearest(capabilities: Capabilities, request: Request) -> Nearest:
    """Return the request nearest to *request* that *capabilities* cover."""
    said = dict(_inexact(capabilities, request.sampling))
    prompt = request.prompt
    if any(film.num_frames for film in prompt.videos) and not capabilities.video_frames:
        said["num_frames"] = FRAMES
        prompt = prompt.without_num_frames()
    if not said:
        return Nearest(request=request)
    kept = {
        name: value
        for name, value in request.sampling.given().items()
        if name not in said
    }
    sampling = SamplingParams(**kept).over(DEFAULTS)
    return Nearest(
        request=Request(prompt=prompt, sampling=sampling), said=tuple(said.values())
    )


def nearest_choice(
    capabilities: Capabilities, request: SelectRequest
) -> tuple[SelectRequest, str]:
    """Return the choice nearest to *request*, and what is not exact, if anything is."""
    if capabilities.choice_scores or not capabilities.select:
        return request, ""
    if not (request.unconditional or request.needs_scores):
        return request, ""
    plain = replace(request, unconditional=False, needs_scores=False)
    return plain, f"{WRITTEN}, without its method or temperature"


def check_nearest(asked: Request, done: Request, completion: Completion) -> None:
    """Check the texts of *completion* against the constraints that were left out.

    Raises:
        ResponseError: one does not fit.
    """
    if asked is done:
        return
    dropped = {
        name: getattr(asked.sampling, name)
        for name in CHECKED
        if getattr(done.sampling, name) is None
    }
    texts = [sample.text for sample in completion.samples]
    check_constraint(SamplingParams(**dropped), texts)


def _inexact(
    capabilities: Capabilities, sampling: SamplingParams
) -> Iterator[tuple[str, str]]:
    usual = DEFAULTS.given()
    for name, value in sampling.given().items():
        if name in CHECKED and not getattr(capabilities, name):
            yield name, f"{name}: checked, not held to"
        elif (
            name in LEFT_OUT
            and name in capabilities.unsupported_sampling
            and value != usual.get(name)
        ):
            yield name, f"{name}={value!r}: left out"
