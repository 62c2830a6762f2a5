"""What SGLang imports of its compiled kernels, on a machine that has none of them.

Without them it computes with PyTorch's own operations. One kernel has no such stand-in
there and is written here; the others only have to exist.
"""

from collections.abc import Callable
from typing import Any

__version__ = "0.4.10"


def __getattr__(name: str) -> Callable[..., Any]:
    if name.startswith("__"):
        raise AttributeError(name)

    def absent(*_: object, **__: object) -> None:
        raise NotImplementedError(f"there is no kernel {name!r} on this machine")

    return absent


def assign_req_to_token_pool_cpu(
    requests: Any, pool: Any, starts: Any, ends: Any, places: Any, *_: object
) -> None:
    """Note where in memory the new tokens of each request lie."""
    taken = 0
    spans = zip(requests.tolist(), starts.tolist(), ends.tolist(), strict=True)
    for request, start, end in spans:
        count = end - start
        pool[request, start:end] = places[taken : taken + count].to(pool.dtype)
        taken += count
