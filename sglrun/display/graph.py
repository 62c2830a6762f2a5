"""The tree: a program's graph as people read it in a terminal."""

from collections import defaultdict

from rich.text import Text
from rich.tree import Tree

from sglrun.display.diagram import words
from sglrun.interpreter.tracing.graph import Graph, Kind, Node

_STYLES: dict[Kind, str] = {
    "generate": "green",
    "select": "green",
    "branch": "yellow",
    "end": "red",
    "role": "bold",
    "program": "bold",
}
_OPENS: frozenset[Kind] = frozenset({"role", "scope"})
_CLOSES: frozenset[Kind] = frozenset({"role_end", "scope_end"})
_MOST = 400


def render_tree(graph: Graph, title: str) -> Tree:
    """Return the steps of *graph* as a tree under *title*.

    Turns, scopes, branches of forks and programs that are called stand indented.
    """
    growing = _Growing(title)
    for node in graph.nodes[:_MOST]:
        growing.add(node)
    left = len(graph.nodes) - _MOST
    if left > 0:
        growing.root.add(Text(f"… and {left:,} more steps", style="dim"))
    return growing.root


class _Growing:
    """A tree that grows step by step; each stream adds where it stands."""

    def __init__(self, title: str) -> None:
        self.root = Tree(Text(title, style="bold"), guide_style="dim")
        self._open: dict[int, list[Tree]] = defaultdict(lambda: [self.root])
        self._streams: list[int] = []
        self._last: tuple[Tree, Tree, Text] | None = None  # above, below, as it was
        self._times = 1

    def add(self, node: Node) -> None:
        self._streams.append(node.stream)
        if node.kind == "return":
            return
        stack = self._open[node.stream]
        if node.kind in _CLOSES:
            if len(stack) > 1:
                stack.pop()
            return
        if node.kind == "program" and node.follows:
            around = self._open[self._streams[node.follows[0]]]
            stack[:] = [around[-1].add(_label(node))]
            return
        grown = self._grow(stack[-1], _label(node))
        if node.kind in _OPENS:
            stack.append(grown)
        for number, stream in enumerate(node.streams if node.kind == "fork" else ()):
            branch = grown.add(Text(f"branch {number}", style="dim"))
            self._open[stream] = [branch]

    def _grow(self, above: Tree, label: Text) -> Tree:
        """Add *label*, or count it where it repeats the one before."""
        last = self._last
        if last is not None and last[0] is above and last[2] == label:
            self._times += 1
            last[1].label = label.copy().append(f"  {self._times:,} times", style="dim")
            return last[1]
        grown = above.add(label)
        self._last, self._times = (above, grown, label), 1
        return grown


def _label(node: Node) -> Text:
    label = Text(words(node), style=_STYLES.get(node.kind, ""))
    if node.where and node.kind not in _OPENS:
        label.append(f"  {node.where}", style="dim")
    return label
