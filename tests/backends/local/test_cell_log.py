"""The log of cells."""

from hypothesis import given
from hypothesis import strategies as st

from sglrun.backends.local.cell_log import CellLog


def test_cells_are_handed_out_upwards_until_laid_anew() -> None:
    """What was let go of stays filled, and what is held moves down in its order."""
    log = CellLog(10)
    log.append([0, 1, 0, 1, 1])
    log.share(1, 2, 2)
    let_go = log.cut(0, 0), log.cut(1, 1), log.cut(1, 1)
    log.append([2])

    assert let_go == (True, True, False)
    assert (log.filled, log.room, log.held()) == (6, 4, 3)
    assert log.lay_anew()
    assert (log.filled, log.room) == (3, 7)
    log.append([1])
    assert log.lay_anew() is False


def test_what_lies_on_top_is_let_go_of_without_a_move() -> None:
    """Nothing moves where nothing that is held lies above what was let go of."""
    log = CellLog(10)
    log.append([0, 0, 1])
    log.cut(1, 0)

    assert log.lay_anew() is False
    assert log.filled == 2
    log.cut(0, 0)
    assert log.is_empty
    assert log.lay_anew() is False
    assert log.filled == 0


actions = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 3), st.integers(1, 6)),
        st.tuples(st.just("share"), st.integers(0, 3), st.integers(0, 3)),
        st.tuples(st.just("cut"), st.integers(0, 3), st.integers(0, 4)),
        st.tuples(st.just("lay"), st.just(0), st.just(0)),
    ),
    max_size=40,
)


@given(actions)
def test_a_token_always_lies_behind_those_before_it(
    steps: list[tuple[str, int, int]],
) -> None:
    """However cells are shared, cut and laid anew, those of a sequence ascend."""
    log = CellLog(300)
    for step, one, two in steps:
        if step == "append":
            log.append([one] * two)
        elif step == "share" and one != two and one in log._held:
            log.cut(two, 0)
            log.share(one, two, 1 + len(log._held[one]) // 2)
        elif step == "cut":
            log.cut(one, two)
        elif step == "lay":
            log.lay_anew()
        for held in log._held.values():
            assert held == sorted(set(held))
            assert held[-1] < log.filled
