"""Answers: what a backend said to a request, as text and back, and what tells requests.

Rule: a request is told by all that a backend may know of it, and by the fork that asks;
its prompt is not kept, only a digest.
"""

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from hashlib import blake2b
from typing import Any

from sglrun.backends.base import (
    Completion,
    Request,
    Sample,
    Selection,
    SelectRequest,
    Usage,
)
from sglrun.batch.digests import SIZE
from sglrun.lang.choices import ChoiceScore, TokenLogprob
from sglrun.lang.prompt import Message, Part, Prompt
from sglrun.lang.sampling import SamplingParams

Answer = Completion | Selection
Asked = Request | SelectRequest


@dataclass(frozen=True, slots=True)
class Kept:
    """An answer as it is kept: the digest of what was asked, and a line of JSON."""

    request: bytes
    text: str

    @property
    def line(self) -> bytes:
        """The line of a journal."""
        line = f'{{"request": "{self.request.hex()}", "answer": {self.text}}}\n'
        return line.encode("utf-8", "surrogatepass")


def request_digest(request: Asked) -> bytes:
    """Return what tells *request* from others of its row."""
    prompt = request.prompt
    digest = blake2b(_utf8(prompt.text), digest_size=SIZE)
    for image in prompt.images:
        digest.update(blake2b(image.data or _utf8(image.url)).digest())
    if isinstance(request, Request):
        asked = _sampling(request.sampling)
    else:
        scores = (request.unconditional, request.needs_scores)
        asked = repr((request.choices, scores))
    digest.update(_utf8(f"{asked}{request.branch}{_shape(prompt)}"))
    return digest.digest()


def kept(request: bytes, answer: Answer) -> Kept | None:
    """Return *answer* as it is kept; ``None`` if JSON cannot hold it."""
    try:
        return Kept(request, _ENCODER.encode(answer))
    except (TypeError, ValueError, RecursionError):
        return None


def parse_kept(line: bytes) -> tuple[bytes, Answer]:
    """Return the digest of the request, and the answer, that a *line* holds."""
    found = json.loads(line.decode("utf-8", "surrogatepass"))
    return bytes.fromhex(found["request"]), _parse(found["answer"])


def _sampling(sampling: SamplingParams) -> str:
    try:
        return _hashable_sampling(sampling)
    except TypeError:  # one of its values is a mapping
        return repr(sampling.given())


@functools.lru_cache(maxsize=256)
def _hashable_sampling(sampling: SamplingParams) -> str:
    return repr(sampling.given())


def _shape(prompt: Prompt) -> object:
    """Return where in its text the turns of *prompt* begin and end, and its images."""
    turns = [_turn(message) for message in prompt.messages]
    opened = [_length(part) for part in prompt.open_parts]
    return turns, prompt.role, opened, len(prompt.loose_text)


def _turn(message: Message) -> object:
    return message.role, [_length(part) for part in message.parts]


def _length(part: Part) -> object:
    return len(part) if isinstance(part, str) else part.media_type


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _parse(found: dict[str, Any]) -> Answer:
    usage = Usage(**found["usage"])
    if "samples" in found:
        samples = tuple(Sample(**sample) for sample in found["samples"])
        return Completion(samples=samples, usage=usage)
    scores = tuple(map(_parse_score, found["scores"]))
    return Selection(scores=scores, chosen=found["chosen"], usage=usage)


def _parse_score(found: dict[str, Any]) -> ChoiceScore:
    alone = found["unconditional"]
    return ChoiceScore(
        choice=found["choice"],
        tokens=tuple(TokenLogprob(**token) for token in found["tokens"]),
        unconditional=None if alone is None else tuple(alone),
    )


_FIELDS: Mapping[type, tuple[str, ...]] = {
    kind: tuple(field.name for field in fields(kind))
    for kind in (Completion, Sample, Usage, Selection, ChoiceScore, TokenLogprob)
}


def _members(value: object) -> dict[str, object]:
    if isinstance(value, Mapping):
        return dict(value)
    try:
        return {name: getattr(value, name) for name in _FIELDS[type(value)]}
    except KeyError as exc:
        raise TypeError(f"{type(value).__name__} is no part of an answer") from exc


_ENCODER = json.JSONEncoder(ensure_ascii=False, default=_members)
