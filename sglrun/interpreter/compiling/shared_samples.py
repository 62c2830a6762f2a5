"""Shared samples: one request of several samples for generations that are the same.

Only what is drawn at random may be shared: several samples of one request then mean
what several requests mean. With a seed, or where the likeliest token is taken, they do
not.
"""

import threading
from concurrent.futures import Future
from dataclasses import dataclass, replace

from sglrun.backends.base import (
    Backend,
    Completion,
    OnText,
    Request,
    Usage,
)
from sglrun.backends.passing import PassingBackend
from sglrun.lang.prompt import Prompt
from sglrun.lang.sampling import SamplingParams

_COLDEST = 1e-6  # below, the likeliest token is taken


@dataclass(slots=True)
class _Group:
    """Generations that are expected; its fields change under the backend's lock."""

    prompt: Prompt
    size: int
    given: int = 0
    sampling: SamplingParams | None = None
    answer: "Future[Completion] | None" = None

    def takes(self, request: Request) -> bool:
        return (
            self.given < self.size
            and self.prompt == request.prompt
            and self.sampling in (None, request.sampling)
        )


class SharedSamples(PassingBackend):
    """A backend that sends generations which are expected together as one request.

    Attributes:
        kind: that of the backend behind it, as are the model and what it can do.
    """

    def __init__(self, backend: Backend) -> None:
        """Ask *backend*."""
        super().__init__(backend)
        self._lock = threading.Lock()
        self._groups: list[_Group] = []

    def expect(self, prompt: Prompt, size: int) -> None:
        """Take note that *size* generations after *prompt* are about to be asked for.

        All of them must be asked for, with the same parameters.
        """
        if "n" in self.capabilities.unsupported_sampling:
            return
        with self._lock:
            self._groups.append(_Group(prompt, size))

    def generate(self, request: Request, on_text: OnText | None = None) -> Completion:
        """Return a sample; waits for the one request that all of a group share."""
        with self._lock:
            group = self._group(request) if on_text is None else None
            if group is None:
                number = -1
            else:
                number = group.given
                group.given += 1
                group.sampling = request.sampling
                group.answer = group.answer or Future()
        if group is None or group.answer is None:
            return self._backend.generate(request, on_text)
        if number == 0:
            self._ask(request, group.size, group.answer)
        whole = group.answer.result()
        return Completion(
            samples=(whole.samples[number],),
            usage=whole.usage if number == 0 else Usage(),
        )

    def _group(self, request: Request) -> _Group | None:
        sampling = request.sampling
        drawn = sampling.temperature >= _COLDEST and sampling.seed is None
        if sampling.n != 1 or not drawn:
            return None
        return next((each for each in self._groups if each.takes(request)), None)

    def _ask(self, request: Request, size: int, answer: "Future[Completion]") -> None:
        sampling = replace(request.sampling, n=size)
        try:
            answer.set_result(
                self._backend.generate(replace(request, sampling=sampling))
            )
        except BaseException as exc:  # noqa: BLE001 - handed to all who wait
            answer.set_exception(exc)
