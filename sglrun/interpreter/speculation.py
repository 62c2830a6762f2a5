"""Speculation: one request to an API for several generations of a program.

A generation is asked for without its stop strings; what the model writes after them is
kept, and answers later generations as long as the program's own text agrees with it.
Where it does not, the generation is asked for by itself.
"""

import threading
import warnings
from collections import deque
from dataclasses import dataclass, replace

from sglrun.backends.base import (
    Backend,
    Completion,
    OnText,
    Request,
    Sample,
    Usage,
)
from sglrun.backends.passing import PassingBackend
from sglrun.errors import UnsupportedFeatureError
from sglrun.lang.prompt import Prompt
from sglrun.lang.sampling import SamplingParams

_TRIES = 3
_KEPT = 16  # texts written ahead: one for each branch that is likely to be at work
_CONSTRAINTS = ("regex", "json_schema", "ebnf", "return_logprob", "logit_bias")


def speculating(backend: Backend, budget: int) -> Backend:
    """Return *backend*, speculating where a request of its own costs the whole prompt.

    Args:
        backend: the model side.
        budget: tokens that are asked for at once.

    Warns:
        UserWarning: the backend keeps prompts, so that asking each time costs less.
    """
    if backend.capabilities.prefix_cache:
        warnings.warn(
            f"num_api_spec_tokens={budget} speculates on no {backend.kind!r} backend: "
            "it keeps prompts, and each generation is asked for by itself",
            stacklevel=3,
        )
        return backend
    return SpeculatingBackend(backend, budget)


@dataclass(frozen=True, slots=True)
class _Ahead:
    """A text with what the model wrote after it, and whether it had ended there."""

    text: str
    has_ended: bool


class SpeculatingBackend(PassingBackend):
    """A backend for one run of a program; safe from any thread."""

    def __init__(self, backend: Backend, budget: int) -> None:
        """Ask *backend* for *budget* tokens at once."""
        super().__init__(backend)
        self._budget = budget
        self._lock = threading.Lock()
        self._ahead: deque[_Ahead] = deque(maxlen=_KEPT)

    def generate(self, request: Request, on_text: OnText | None = None) -> Completion:
        """Return what is written ahead, or ask for more."""
        sample, usage = self._taken(request), Usage()
        if sample is None and _is_open(request):
            usage = self._write_ahead(request)
            sample = self._taken(request)
            if sample is None:
                return self._asked(request, on_text, usage)
        if sample is None:
            return self._backend.generate(request, on_text)
        if on_text is not None:
            on_text(sample.text)
        return Completion(samples=(sample,), usage=usage)

    def _taken(self, request: Request) -> Sample | None:
        """Return the answer to *request* where it is written ahead, whole."""
        if not _is_plain(request.sampling):
            return None
        text = request.prompt.text
        with self._lock:
            found = [each for each in self._ahead if each.text.startswith(text)]
        for ahead in reversed(found):
            rest = ahead.text[len(text) :]
            stops = {at: s for s in request.sampling.stop if (at := rest.find(s)) >= 0}
            if not (stops or (ahead.has_ended and rest)):
                continue
            end = min(stops, default=len(rest))
            tokens = self._backend.count_tokens(rest[:end])
            if tokens <= request.sampling.max_new_tokens:
                return _sample(rest[:end], stops.get(end), tokens)
        return None

    def _write_ahead(self, request: Request) -> Usage:
        """Have the model write after *request*, up to three times until it fits."""
        prompt = request.prompt
        begun = _begun(prompt)
        start = replace(prompt, text=prompt.text.removesuffix(begun), open_parts=())
        asked = replace(request, prompt=start, sampling=self._ahead_sampling(request))
        space = begun[: len(begun) - len(begun.lstrip())]
        usage = Usage()
        for _ in range(_TRIES if begun else 1):
            completion = self._backend.generate(asked)
            usage += completion.usage
            (sample,) = completion.samples
            written = space + sample.text.lstrip() if begun else sample.text
            ahead = _Ahead(start.text + written, sample.finish_reason == "stop")
            with self._lock:
                self._ahead.append(ahead)
            if ahead.text.startswith(prompt.text):
                break
        return usage

    def _ahead_sampling(self, request: Request) -> SamplingParams:
        sampling = request.sampling
        return replace(
            sampling,
            max_new_tokens=max(sampling.max_new_tokens, self._budget),
            stop=request.prompt.template.stop,
        )

    def _asked(
        self, request: Request, on_text: OnText | None, spent: Usage
    ) -> Completion:
        """Ask for *request* by itself, after what was written ahead did not fit."""
        warnings.warn(
            "speculation missed: what the model wrote does not fit the program, which "
            "asks again by itself",
            stacklevel=2,
        )
        try:
            completion = self._backend.generate(request, on_text)
        except UnsupportedFeatureError as exc:
            exc.add_note(
                f"the model was asked {_TRIES} times to write the whole turn and did "
                "not keep to this text; show it the format in the question"
            )
            raise
        return replace(completion, usage=spent + completion.usage)


def _is_plain(sampling: SamplingParams) -> bool:
    return sampling.n == 1 and not any(
        getattr(sampling, name) is not None for name in _CONSTRAINTS
    )


def _is_open(request: Request) -> bool:
    """Return whether writing ahead of *request* may be of use."""
    prompt, sampling = request.prompt, request.sampling
    if not _is_plain(sampling) or (prompt.is_chat and prompt.role is None):
        return False
    if any(not isinstance(part, str) for part in prompt.open_parts):
        return False
    own_stops = set(sampling.stop) - set(prompt.template.stop)
    return bool(own_stops or prompt.open_parts)


def _begun(prompt: Prompt) -> str:
    """Return what stands in the open turn."""
    return "".join(part for part in prompt.open_parts if isinstance(part, str))


def _sample(text: str, stop: str | None, tokens: int) -> Sample:
    meta = {
        "finish_reason": {"type": "stop", "matched": stop},
        "completion_tokens": tokens,
    }
    return Sample(text=text, finish_reason="stop", meta_info=meta)
