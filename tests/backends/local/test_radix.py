"""The radix tree."""

from hypothesis import given
from hypothesis import strategies as st

from sglrun.backends.local.horizon import Horizon
from sglrun.backends.local.radix import Cut, RadixTree, Tokens


class Owner:
    """An owner of sequences: it knows what each holds, and obeys the tree."""

    def __init__(self) -> None:
        self.horizon = Horizon(11_000)
        self.tree = RadixTree(self.horizon)
        self.held: dict[int, Tokens] = {}
        self._next = 0

    def insert(self, tokens: Tokens) -> None:
        """Hold *tokens* in a new sequence, and free what the tree releases."""
        holder = self._next
        self._next += 1
        self.held[holder] = tokens
        for released in self.tree.insert(tokens, holder).released:
            del self.held[released]

    def obey(self, cut: Cut) -> None:
        """Let go of what the tree gave up."""
        if cut.length:
            self.held[cut.holder] = self.held[cut.holder][: cut.length]
        else:
            del self.held[cut.holder]


def common(left: Tokens, right: Tokens) -> int:
    """Return how many tokens both begin with."""
    same = 0
    while same < min(len(left), len(right)) and left[same] == right[same]:
        same += 1
    return same


runs = st.lists(st.integers(0, 2), min_size=1, max_size=8).map(tuple)


@given(st.lists(runs, max_size=20), runs)
def test_a_match_is_the_longest_known_prefix(
    known: list[Tokens], asked: Tokens
) -> None:
    """A match is as long as any inserted run has it, and its holder has the tokens."""
    owner = Owner()
    for tokens in known:
        owner.insert(tokens)
    match = owner.tree.match(asked)

    assert match.length == max((common(asked, tokens) for tokens in known), default=0)
    if match.holder is not None:
        assert owner.held[match.holder][: match.length] == asked[: match.length]


@given(st.lists(runs, max_size=20))
def test_shared_runs_count_once(known: list[Tokens]) -> None:
    """The size is the number of different prefixes, and only leaves have holders."""
    owner = Owner()
    for tokens in known:
        owner.insert(tokens)
    prefixes = {tokens[:end] for tokens in known for end in range(1, len(tokens) + 1)}
    leaves = {p for p in prefixes if not any(q[:-1] == p for q in prefixes)}

    assert owner.tree.size == len(prefixes)
    assert set(owner.tree.holders()) == set(owner.held)
    assert set(owner.held.values()) == leaves


@given(st.lists(st.one_of(runs, st.none(), st.integers(0, 1500)), max_size=40))
def test_giving_up_keeps_the_books(steps: list[Tokens | int | None]) -> None:
    """Between insertions and evictions, holders hold exactly what the tree says."""
    owner = Owner()
    for tokens in steps:
        if isinstance(tokens, int):
            owner.horizon.computed += tokens
            for given_up in owner.tree.expire():
                owner.obey(given_up)
        elif tokens is not None:
            owner.insert(tokens)
        elif (cut := owner.tree.evict()) is not None:
            owner.obey(cut)
        for holder, held in owner.held.items():
            match = owner.tree.match(held)
            assert match.length == len(held), holder
        prefixes = {
            h[:end] for h in owner.held.values() for end in range(1, len(h) + 1)
        }
        assert owner.tree.size == len(prefixes)

    while (cut := owner.tree.evict()) is not None:
        owner.obey(cut)
    assert (owner.held, owner.tree.size) == ({}, 0)


def test_the_least_recently_used_leaf_goes_first() -> None:
    """What was matched last stays longest, and a shared prefix outlives its leaves."""
    owner = Owner()
    for tokens in ((1, 2, 3), (1, 2, 4), (5, 6)):
        owner.insert(tokens)
    owner.tree.match((1, 2, 3))
    lost = []
    while (cut := owner.tree.evict()) is not None:
        before = owner.held[cut.holder]
        owner.obey(cut)
        lost.append((before, cut.length))

    assert lost == [((1, 2, 4), 0), ((5, 6), 0), ((1, 2, 3), 2), ((1, 2), 0)]


def test_locked_tokens_stay() -> None:
    """A locked leaf is not given up, and a locked inner node keeps its own holder."""
    tree = RadixTree(Horizon(11_000))
    inner = tree.insert((1, 2), 0).node
    tree.lock(inner)
    tree.insert((1, 2, 3), 1)

    assert tree.evict() == Cut(1)
    assert tree.evict() is None
    assert tree.locked_size() == 2
    assert tree.unlock(inner) == ()
    assert tree.evict() == Cut(0)


def test_a_holder_is_released_when_its_node_is_no_leaf() -> None:
    """A run that goes on from another takes over its tokens, once it is unlocked."""
    tree = RadixTree(Horizon(11_000))
    inner = tree.insert((1, 2), 0).node
    tree.lock(inner)

    assert tree.insert((1, 2, 3), 1).released == ()
    assert tree.unlock(inner) == (0,)
    assert tree.match((1, 2)).holder == 1


def test_known_tokens_need_no_second_holder() -> None:
    """Inserting a run that the tree has gives the sequence back."""
    tree = RadixTree(Horizon(11_000))
    tree.insert((1, 2, 3), 0)

    assert tree.insert((1, 2, 3), 1).released == (1,)
    assert tree.insert((1, 2), 2).released == (2,)


def test_a_cut_may_end_inside_an_edge_or_before_it() -> None:
    """What remains after a cut is what its holder still holds."""
    tree = RadixTree(Horizon(11_000))
    tree.insert((1, 2, 3, 4), 0)
    node = tree.insert((1, 2, 5, 6), 1).node

    assert tree.cut(node, 3) == Cut(1, 3)
    assert tree.match((1, 2, 5, 6)).length == 3
    assert tree.cut(node, 1) == Cut(1)
    assert (tree.match((1, 2, 5)).length, tree.size) == (2, 4)


def test_use_of_what_stays_anyway_tells_nothing() -> None:
    """What a running text shares is used again and again; what is idle counts."""
    horizon = Horizon(11_000)
    tree = RadixTree(horizon)
    text = tuple(range(20))
    node = tree.insert((*text, 1), 0).node
    tree.lock(node)
    tree.match((*text, 2))
    while_needed = sum(horizon._reused)
    tree.unlock(node)
    tree.match((*text, 3))

    assert (while_needed, sum(horizon._reused)) == (0, 20)
