"""The radix tree: which sequence of the KV cache holds which run of tokens.

A node stands for the tokens from the root to its end. Every leaf has a holder: a
sequence whose first cells are those tokens. What an inner node stands for is held by
each leaf below it, so a prefix that many share costs no sequence of its own.

Rule: pure bookkeeping. It touches no cell; it tells what its owner must free.
"""

from dataclasses import dataclass, field
from itertools import chain, takewhile

from sglrun.backends.local.horizon import Horizon

Tokens = tuple[int, ...]


@dataclass(slots=True, eq=False)
class Node:
    """A run of tokens after its parent's.

    Attributes:
        edge: the run; empty for the root alone.
        depth: tokens from the root to its end.
        parent: the node before it; ``None`` for the root.
        children: the nodes after it, by their first token.
        holder: a sequence that begins with its tokens; every leaf has one.
        locks: who needs it to stay as it is.
        needed: locks of it and of all that go on from it.
        used: when it was last needed, as a count of calls.
        used_at: the same, as tokens computed until then.
    """

    edge: Tokens
    depth: int
    parent: "Node | None" = None
    children: "dict[int, Node]" = field(default_factory=dict)
    holder: int | None = None
    locks: int = 0
    needed: int = 0
    used: int = 0
    used_at: int = 0


@dataclass(frozen=True, slots=True)
class Match:
    """How far a tree knows some tokens, and a sequence that holds that much."""

    length: int = 0
    holder: int | None = None


@dataclass(frozen=True, slots=True)
class Cut:
    """What a sequence still has to hold: its first *length* tokens; 0 frees it."""

    holder: int
    length: int = 0


@dataclass(frozen=True, slots=True)
class Inserted:
    """The node of inserted tokens, and sequences that the tree no longer needs.

    The given sequence is among them where the tree held the tokens already.
    """

    node: Node
    released: tuple[int, ...]


class RadixTree:
    """A tree of token runs, with the least recently used leaf to be given up first.

    Attributes:
        size: tokens in the tree; each shared run counts once.
    """

    def __init__(self, horizon: Horizon) -> None:
        """Begin empty, with the clock of *horizon*, which is told of all reuse."""
        self._horizon = horizon
        self._root = Node((), 0)
        self._calls = 0
        self.size = 0

    def match(self, tokens: Tokens) -> Match:
        """Return the longest prefix of *tokens* that the tree holds; marks it used."""
        node, beyond, shared = self._walk(tokens)
        for passed in _path(node):
            self._use(passed, len(passed.edge))
        if beyond is not None:
            self._use(beyond, shared)
            return Match(node.depth + shared, _holder_below(beyond))
        if node is self._root:
            return Match()
        return Match(node.depth, _holder_below(node))

    def insert(self, tokens: Tokens, holder: int) -> Inserted:
        """Let *holder*, whose first cells are *tokens*, hold them from now on."""
        node, beyond, shared = self._walk(tokens)
        if beyond is not None:
            node = _split(beyond, shared)
        if node.depth == len(tokens):
            self._use(node, 0)
            return Inserted(node, (holder,))
        rest = tokens[node.depth :]
        self._horizon.note_new(tokens, node.depth)
        leaf = Node(rest, len(tokens), node, holder=holder)
        self._use(leaf, 0)
        node.children[rest[0]] = leaf
        self.size += len(rest)
        return Inserted(leaf, _released_by(node))

    def lock(self, node: Node) -> None:
        """Keep *node* and its holder until as many ``unlock``."""
        node.locks += 1
        for passed in _path(node):
            passed.needed += 1

    def unlock(self, node: Node) -> tuple[int, ...]:
        """Undo one ``lock``; return sequences that are no longer needed."""
        node.locks -= 1
        for passed in _path(node):
            passed.needed -= 1
            self._use(passed, 0)
        return _released_by(node)

    def evict(self) -> Cut | None:
        """Give up the end of the least recently used leaf; ``None``: all are locked."""
        leaves = [node for node in self._nodes() if _is_evictable(node)]
        if not leaves:
            return None
        oldest = min(leaves, key=lambda node: node.used)
        return self.cut(oldest, _parent(oldest).depth)

    def expire(self) -> list[Cut]:
        """Give up the ends of all leaves that are not worth keeping."""
        cuts: dict[int, Cut] = {}
        for node in reversed(self._nodes()):  # leaves first, then what they lay on
            oldest = self._horizon.oldest(len(node.edge))
            if node.used_at < oldest and _is_evictable(node):
                start = _parent(node).depth
                self._horizon.note_given_up(_text(node), start, node.used_at)
                cut = self.cut(node, start)
                cuts[cut.holder] = cut
        return list(cuts.values())

    def cut(self, leaf: Node, length: int) -> Cut:
        """Give up the tokens of *leaf* from *length* on; those before it stay held.

        *leaf* has a holder and no children.
        """
        holder = leaf.holder
        assert holder is not None  # noqa: S101 - every leaf has one
        while length <= (parent := _parent(leaf)).depth:
            del parent.children[leaf.edge[0]]
            self.size -= len(leaf.edge)
            leaf.holder = None
            if parent.parent is None or parent.children or parent.holder is not None:
                return Cut(holder)
            leaf = parent
            leaf.holder = holder
            if length == leaf.depth:
                return Cut(holder, length)
        self.size -= leaf.depth - length
        leaf.edge = leaf.edge[: length - parent.depth]
        leaf.depth = length
        return Cut(holder, length)

    def locked_size(self) -> int:
        """Return how many tokens cannot be evicted."""
        return sum(len(node.edge) for node in self._nodes() if node.needed)

    def holders(self) -> tuple[int, ...]:
        """Return the sequences that the tree needs."""
        return tuple(node.holder for node in self._nodes() if node.holder is not None)

    def _walk(self, tokens: Tokens) -> tuple[Node, Node | None, int]:
        """Return the last whole node, and the child entered, with how far into it."""
        node = self._root
        while node.depth < len(tokens):
            child = node.children.get(tokens[node.depth])
            if child is None:
                break
            if tokens[node.depth : child.depth] != child.edge:
                pairs = zip(tokens[node.depth :], child.edge, strict=False)
                same = takewhile(lambda pair: pair[0] == pair[1], pairs)
                return node, child, sum(1 for _ in same)
            node = child
        return node, None, 0

    def _nodes(self) -> list[Node]:
        found = list(self._root.children.values())
        for node in found:
            found.extend(node.children.values())
        return found

    def _use(self, node: Node, reused: int) -> None:
        """Note that *node* is used now, and *reused* tokens of it again.

        Of what stays anyway that tells nothing.
        """
        self._calls += 1
        if reused and not node.needed:
            self._horizon.note_reuse(reused, node.used_at)
        node.used = self._calls
        node.used_at = self._horizon.computed


def _split(node: Node, length: int) -> Node:
    """Divide *node* after *length* tokens of its edge; return the upper part."""
    parent = _parent(node)
    upper = Node(
        node.edge[:length],
        parent.depth + length,
        parent,
        needed=node.needed,
        used=node.used,
        used_at=node.used_at,
    )
    parent.children[node.edge[0]] = upper
    node.edge, node.parent = node.edge[length:], upper
    upper.children[node.edge[0]] = node
    return upper


def _path(node: Node) -> list[Node]:
    found = []
    while node.parent is not None:
        found.append(node)
        node = node.parent
    return found


def _text(node: Node) -> Tokens:
    return tuple(chain.from_iterable(passed.edge for passed in _path(node)[::-1]))


def _holder_below(node: Node) -> int:
    while node.holder is None:
        node = next(iter(node.children.values()))
    return node.holder


def _released_by(node: Node) -> tuple[int, ...]:
    """Take the holder from an inner node that nobody needs to stay."""
    if node.locks or not node.children or node.holder is None:
        return ()
    holder, node.holder = node.holder, None
    return (holder,)


def _is_evictable(node: Node) -> bool:
    return not node.children and not node.locks


def _parent(node: Node) -> Node:
    assert node.parent is not None  # noqa: S101 - the root is never given up
    return node.parent
