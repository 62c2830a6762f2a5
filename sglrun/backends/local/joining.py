"""The joining of branches: one sequence from what was computed of each by itself."""

from collections.abc import Callable
from typing import Protocol

from sglrun.backends.local.cache import PrefixCache
from sglrun.backends.local.composition import TokenJoin
from sglrun.backends.local.radix import Match, Tokens


class Joiner(Protocol):
    """What the joining needs of a context."""

    def append(self, source: int, target: int, span: range, shift: int) -> bool:
        """Let *target* go on with a moved copy of cells of *source*."""
        ...


def join_branches(
    cache: PrefixCache,
    context: Joiner,
    join: TokenJoin,
    usable: Callable[[Match], int],
) -> bool:
    """Put *join* into the cache, if it is not there; return whether it is now.

    All of its branches were computed before; where one was given up since, or there is
    no room, it is not.
    """

    def holder(tokens: Tokens) -> int | None:
        match = cache.match(tokens)
        return match.holder if usable(match) >= len(tokens) else None

    if holder(join.whole) is not None:
        return True
    first, *others = join.branches
    needed = len(join.whole) - len(join.base) - len(first)
    if not cache.make_room(needed, 2):
        return False
    texts = [join.base + branch for branch in others]
    sources = [holder(text) for text in texts]
    begun = holder(join.base + first)
    if begun is None or None in sources:
        return False
    length = len(join.base) + len(first)
    target = cache.take(begun, length)
    for source, text in zip(sources, texts, strict=True):
        span = range(len(join.base), len(text))
        if source is None or not context.append(
            source, target, span, length - span.start
        ):
            cache.give_back(target)
            return False
        length += len(span)
    cache.hold(join.whole, target)
    return True
