"""The joining of branches: one sequence from what was computed of each by itself."""

from collections.abc import Callable
from typing import Protocol

from sglrun.backends.local.cache import PrefixCache
from sglrun.backends.local.composition import TokenJoin
from sglrun.backends.local.radix import Match, Node, Tokens


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
) -> Node | None:
    """Put *join* into the cache, if it is not there, and keep it.

    All of its branches were computed before; ``None`` where one was given up since, or
    there is no room.
    """

    def holder(tokens: Tokens) -> int | None:
        match = cache.match(tokens)
        return match.holder if usable(match) >= len(tokens) else None

    first, *others = join.branches
    is_there = holder(join.whole) is not None
    needed = 0 if is_there else len(join.whole) - len(join.base) - len(first)
    if not cache.make_room(needed, 2):
        return None
    if (known := holder(join.whole)) is not None:
        return _kept(cache, join, cache.take(known, len(join.whole)))
    texts = [join.base + branch for branch in others]
    sources = [holder(text) for text in texts]
    begun = holder(join.base + first)
    if begun is None or None in sources:
        return None
    length = len(join.base) + len(first)
    target = cache.take(begun, length)
    for source, text in zip(sources, texts, strict=True):
        span = range(len(join.base), len(text))
        if source is None or not context.append(
            source, target, span, length - span.start
        ):
            cache.give_back(target)
            return None
        length += len(span)
    return _kept(cache, join, target)


def _kept(cache: PrefixCache, join: TokenJoin, sequence: int) -> Node:
    node, is_shared = cache.begin(join.whole, sequence)
    if not is_shared:
        cache.give_back(sequence)
    cache.keep(node)
    cache.end(node)
    return node
