"""Samples asked for one by one, where a server gives one text to a request."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from sglrun.backends.base import Completion, OnText, Request, Usage

_AT_ONCE = 8


def generate_one_by_one(
    ask: Callable[[Request, OnText | None], Completion],
    request: Request,
    on_text: OnText | None = None,
) -> Completion:
    """Return the completion of *request*, each sample by a request of its own; waits.

    A seed is counted up, so that samples are drawn apart and can be drawn again.

    Args:
        ask: returns the completion of a request for one sample.
        request: what is asked.
        on_text: gets the pieces of the first sample's text.

    Raises:
        BackendError: no usable answer came to one of them.
    """
    first, *others = _alone(request)
    if not others:
        return ask(first, on_text)
    with ThreadPoolExecutor(min(_AT_ONCE, len(others)), "sample") as pool:
        waiting = [pool.submit(ask, other, None) for other in others]
        completions = [ask(first, on_text), *(one.result() for one in waiting)]
    return Completion(
        samples=tuple(c.samples[0] for c in completions),
        usage=sum((c.usage for c in completions), Usage()),
    )


def _alone(request: Request) -> Iterator[Request]:
    sampling = request.sampling
    for number in range(sampling.n):
        seed = None if sampling.seed is None else sampling.seed + number
        yield replace(request, sampling=replace(sampling, n=1, seed=seed))
