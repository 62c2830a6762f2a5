"""The map of cells."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglrun.backends.local.cell_map import CellMap, runs


def test_each_goes_on_in_the_lowest_blocks_that_are_free_above_it() -> None:
    """A sequence begins a block at each eighth token; others may lie between."""
    cells = CellMap(64, 8)
    first = cells.extend(0, 5)
    second = cells.extend(1, 9)
    more = cells.extend(0, 4)
    let_go = cells.cut(1, 0)
    third = cells.extend(2, 17)

    assert first == [0, 1, 2, 3, 4]
    assert second == [8, 9, 10, 11, 12, 13, 14, 15, 16]
    assert more == [5, 6, 7, 24]
    assert let_go == second
    assert third == [*range(8, 24), 32]
    assert (cells.top, cells.taken, cells.length(0)) == (33, 40, 9)


def test_the_first_to_go_on_does_so_where_it_is() -> None:
    """Whoever else goes on in the same block gets its beginning once more."""
    cells = CellMap(64, 8)
    cells.extend(0, 11)
    cells.share(0, 1, 10)
    cells.share(0, 2, 11)

    assert [cells.is_blocked(each) for each in (0, 1, 2)] == [False, True, False]
    assert cells.extend(2, 1) == [11]
    assert [cells.is_blocked(each) for each in (0, 1, 2)] == [True, True, False]
    assert cells.move_end(1) == [16, 17]
    assert cells.extend(1, 7) == [18, 19, 20, 21, 22, 23, 24]
    assert cells.move_end(0) == [32, 33, 34]
    assert cells.cut(2, 8) == [8, 9, 10, 11]


def test_where_there_is_no_room_nothing_changes() -> None:
    """Neither for more nor for another place, though cells below may be free."""
    cells = CellMap(20, 8)  # the last four are no block
    cells.extend(0, 8)
    cells.extend(1, 3)
    cells.share(1, 2, 2)
    cells.cut(0, 0)

    assert cells.extend(1, 6) is None
    assert cells.extend(3, 17) is None
    assert cells.length(1) == 3
    assert cells.move_end(2) == [0, 1]
    assert cells.extend(3, 1) is None


def test_what_is_closed_up_keeps_its_order_and_its_places() -> None:
    """Whole blocks move down; within one, nothing does."""
    cells = CellMap(64, 8)
    cells.extend(0, 20)
    cells.extend(1, 12)
    cells.share(1, 2, 9)
    cells.cut(0, 3)

    assert cells.gaps() == [*range(3, 24), *range(36, 36)]
    assert cells.close_up() == [range(8, 24)]
    assert (cells.top, cells.gaps()) == (20, [3, 4, 5, 6, 7])
    assert cells.extend(1, 5) == [20, 21, 22, 23, 24]
    assert cells.is_blocked(2)
    assert cells.close_up() == []


@pytest.mark.parametrize(
    ("cells", "ranges"),
    [
        ([], []),
        ([3], [range(3, 4)]),
        ([1, 2, 4, 5, 6, 9], [range(1, 3), range(4, 7), range(9, 10)]),
    ],
)
def test_neighbours_are_one_range(cells: list[int], ranges: list[range]) -> None:
    """And others are others."""
    assert runs(cells) == ranges


actions = st.lists(
    st.one_of(
        st.tuples(st.just("extend"), st.integers(0, 3), st.integers(1, 12)),
        st.tuples(st.just("share"), st.integers(0, 3), st.integers(0, 3)),
        st.tuples(st.just("cut"), st.integers(0, 3), st.integers(0, 20)),
        st.tuples(st.just("close"), st.just(0), st.just(0)),
    ),
    max_size=40,
)


def act(cells: CellMap, step: str, one: int, two: int) -> None:
    """Do one thing to *cells*, where it can be done."""
    if step == "extend":
        if not cells.is_blocked(one) or cells.move_end(one) is not None:
            cells.extend(one, two)
    elif step == "share" and one != two and cells.length(one):
        cells.cut(two, 0)
        cells.share(one, two, 1 + cells.length(one) // 2)
    elif step == "cut":
        cells.cut(one, two)
    elif step == "close":
        cells.close_up()


@given(st.sampled_from([1, 4, 8]), actions)
def test_every_token_has_its_place(
    block: int, steps: list[tuple[str, int, int]]
) -> None:
    """Cells of a sequence ascend, block by whole block, each token in its place.

    And a cell is free if, and only if, no sequence holds it.
    """
    cells = CellMap(200, block)
    for step, one, two in steps:
        act(cells, step, one, two)
        for held in cells._held.values():
            assert held == sorted(set(held))
            for start in range(0, len(held), block):
                part = held[start : start + block]
                assert part == list(range(part[0], part[0] + len(part)))
                assert part[0] % block == 0
        counts = [sum(cell in x for x in cells._held.values()) for cell in range(200)]
        assert cells._uses.tolist() == counts
