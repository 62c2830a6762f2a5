"""The prefix cache: the sequences of a context, and how much of it is spoken for.

Rule: only the engine's thread calls it. Sequences in the tree belong to the tree; the
others belong to whoever took them. Cells are counted, so that a job is begun only when
all that it may need is free or can be given up.
"""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Protocol

from sglrun.backends.local.horizon import Horizon
from sglrun.backends.local.radix import Cut, Match, Node, RadixTree, Tokens


class Cells(Protocol):
    """What the cache needs of a context."""

    def fork(self, source: int, target: int, length: int) -> None:
        """Let *target* share the first *length* cells of *source*."""
        ...

    def truncate(self, sequence: int, length: int) -> None:
        """Let go of the cells of *sequence* from *length* on."""
        ...


class PrefixCache:
    """Which tokens are computed, and what is free.

    Attributes:
        cells: tokens that the context holds in all.
        sequences: sequences that it has in all.
        promised: cells that running jobs may still fill, beyond the tree.
        promised_sequences: sequences that they may still take.
        horizon: for how long what nobody needs is kept.
    """

    def __init__(
        self, context: Cells, *, cells: int, sequences: int, worth: int
    ) -> None:
        """Begin with an empty *context*; *worth* is of its attention."""
        self._context = context
        self.horizon = Horizon(worth)
        self._tree = RadixTree(self.horizon)
        self._free = list(range(sequences))
        self._pinned: OrderedDict[int, Node] = OrderedDict()
        self._kept: list[Node] = []  # the oldest first
        self.cells = cells
        self.sequences = sequences
        self.promised = 0
        self.promised_sequences = 0

    @property
    def size(self) -> int:
        """Tokens that the cache knows."""
        return self._tree.size

    def match(self, tokens: Tokens) -> Match:
        """Return the longest prefix of *tokens* that is known."""
        return self._tree.match(tokens)

    def could_hold(self, cells: int) -> bool:
        """Return whether *cells* more are free once all that can be is given up."""
        left = self.cells - self.promised - cells
        return self._tree.size <= left or self._tree.locked_size() <= left

    def make_room(self, cells: int, sequences: int) -> bool:
        """Give up what was used least recently until so much is free; or fail."""
        while (
            self._tree.size + self.promised + cells > self.cells
            or len(self._free) - self.promised_sequences < sequences
        ):
            if not self.evict():
                return False
        return True

    def evict(self) -> bool:
        """Give up the least recently used tokens; return whether there were any."""
        cut = self._tree.evict()
        if cut is None:
            return False
        self._apply(cut)
        return True

    def expire(self, computed: int) -> None:
        """Note that *computed* more tokens were; give up what is not worth keeping."""
        self.horizon.advance(computed)
        for cut in self._tree.expire():
            self._apply(cut)

    def take(self, source: int | None, length: int) -> int:
        """Return a sequence that shares the first *length* cells of *source*.

        There is one, as long as ``make_room`` was asked for it.
        """
        while not self._free and self.evict():
            pass
        sequence = self._free.pop()
        if source is not None and length:
            self._context.fork(source, sequence, length)
        return sequence

    def give_back(self, sequence: int) -> None:
        """Empty *sequence*."""
        self._context.truncate(sequence, 0)
        self._free.append(sequence)

    def hold(self, tokens: Tokens, sequence: int) -> None:
        """Keep *sequence*, which holds *tokens*, for later prompts."""
        if tokens:
            self._release(self._tree.insert(tokens, sequence).released)
        else:
            self.give_back(sequence)

    def begin(self, tokens: Tokens, sequence: int) -> tuple[Node, bool]:
        """Announce that *sequence* will hold *tokens*; locks them until ``end``.

        Returns:
            The node, and whether *sequence* is now the tree's; where the tree had the
            tokens, it stays the caller's.
        """
        inserted = self._tree.insert(tokens, sequence)
        self._tree.lock(inserted.node)
        self._release(held for held in inserted.released if held != sequence)
        return inserted.node, sequence not in inserted.released

    def end(self, node: Node, computed: int | None = None) -> None:
        """Undo ``begin``; where only *computed* tokens came about, forget the rest."""
        self._release(self._tree.unlock(node))
        if computed is not None and computed < node.depth:
            self._forget_rest(node, computed)

    def pin(self, node: Node) -> None:
        """Keep the tokens of *node* from being given up.

        The oldest pins are loosened when pins would take more than half of the cells.
        """
        if id(node) not in self._pinned:
            self._tree.lock(node)
            self._pinned[id(node)] = node
        while self._pinned_size() > self.cells // 2:
            self._unpin()

    def keep(self, node: Node) -> None:
        """Keep the tokens of *node* for who comes for them, until ``let_go``."""
        self._tree.lock(node)
        self._kept.append(node)

    def let_go(self, nodes: Iterable[Node]) -> None:
        """Undo ``keep``, where it has not been loosened since."""
        for node in nodes:
            if node in self._kept:
                self._kept.remove(node)
                self._release(self._tree.unlock(node))

    def loosen(self) -> bool:
        """Loosen what was kept last, or else the oldest pin; or fail."""
        if self._kept:
            self._release(self._tree.unlock(self._kept.pop()))
        elif self._pinned:
            self._unpin()
        else:
            return False
        return True

    def clear(self) -> None:
        """Forget all that no running job needs."""
        while self.loosen():
            pass
        while self.evict():
            pass

    def _forget_rest(self, node: Node, computed: int) -> None:
        """Let the tree know that the holder of *node* has not all of its tokens."""
        if node.holder is None:
            return
        if not node.children:
            self._apply(self._tree.cut(node, computed))
        else:
            holder, node.holder = node.holder, None
            self.give_back(holder)

    def _unpin(self) -> None:
        _, node = self._pinned.popitem(last=False)
        self._release(self._tree.unlock(node))

    def _pinned_size(self) -> int:
        return sum(node.depth for node in self._pinned.values())

    def _apply(self, cut: Cut) -> None:
        if cut.length:
            self._context.truncate(cut.holder, cut.length)
        else:
            self.give_back(cut.holder)

    def _release(self, sequences: Iterable[int]) -> None:
        for sequence in sequences:
            self.give_back(sequence)
