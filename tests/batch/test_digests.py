"""Digests of rows."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from sglrun.batch.digests import SIZE, DigestIndex, digest


@given(
    st.lists(st.integers(0, 300), max_size=400),
    st.lists(st.integers(0, 300), max_size=400),
)
def test_each_entry_is_taken_once(added: list[int], asked: list[int]) -> None:
    """An index gives out each entry of a content once, the newest first."""
    index = DigestIndex()
    numbers = {index.add(digest(b"%d" % each)): each for each in added}
    taken = [(index.take(digest(b"%d" % each)), each) for each in asked]
    found = [(number, each) for number, each in taken if number is not None]

    assert all(numbers[number] == each for number, each in found)
    assert len({number for number, _ in found}) == len(found)
    assert Counter(each for _, each in found) == Counter(added) & Counter(asked)


def test_equal_entries_are_no_burden() -> None:
    """A hundred thousand equal rows are added and taken one by one."""
    index = DigestIndex()
    key = digest(b"same")
    for _ in range(100_000):
        index.add(key)
    taken = [index.take(key) for _ in range(100_000)]

    assert taken == list(reversed(range(100_000)))
    assert index.take(key) is None
    assert len(index) == 100_000


def test_an_entry_after_the_last_was_taken() -> None:
    """What is added after all equal entries were taken is given out."""
    index = DigestIndex()
    key = digest(b"same")
    index.add(key)
    index.take(key)
    added = index.add(key)

    assert index.take(key) == added
    assert index.take(key) is None


def test_digests_tell_contents_apart() -> None:
    """Equal contents have equal digests, others do not."""
    assert digest(b"a") == digest(b"a")
    assert digest(b"a") != digest(b"b")
    assert len(digest(b"")) == SIZE
