"""The fan-out: a sliding window of threads."""

import itertools
import threading
from collections.abc import Iterable, Iterator
from contextvars import ContextVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sglrun.interpreter.fan_out import FanOut, auto_num_threads

WAIT_S = 10.0


def live() -> set[str]:
    return {t.name for t in threading.enumerate() if t.name.startswith("sglrun-row")}


def recorded(items: Iterable[int], taken: list[int]) -> Iterator[int]:
    """Give *items*, each noted in *taken* when it is asked for."""
    for item in items:
        taken.append(item)
        yield item


def wait_for_no_thread() -> None:
    for thread in threading.enumerate():
        if thread.name.startswith("sglrun-row"):
            thread.join(WAIT_S)


@settings(max_examples=60)
@given(st.integers(0, 40), st.integers(1, 6), st.integers(1, 9), st.booleans())
def test_every_item_gives_one_result(
    count: int,
    num_threads: int,
    window: int,
    ordered: bool,  # noqa: FBT001 - drawn
) -> None:
    """Whatever the sizes, each item gives its result once, in order where asked."""
    results = list(
        FanOut(
            lambda item: -item,
            range(count),
            num_threads=num_threads,
            window=window,
            ordered=ordered,
        )
    )
    expected = [-item for item in range(count)]

    assert (results if ordered else sorted(results, reverse=True)) == expected


def test_a_slow_item_holds_nobody_back() -> None:
    """All others finish while one item waits: there is no barrier."""
    released = threading.Event()

    def work(item: int) -> int:
        if item == 0:
            assert released.wait(WAIT_S)
        return item

    results = iter(FanOut(work, range(20), num_threads=2))
    others = list(itertools.islice(results, 19))
    released.set()

    assert sorted(others) == list(range(1, 20))
    assert list(results) == [0]


def test_in_order_a_slow_item_lets_the_others_work() -> None:
    """In order, many later items are worked on while the first is awaited."""
    released, done = threading.Event(), threading.Semaphore(0)

    def work(item: int) -> int:
        if item == 0:
            assert released.wait(WAIT_S)
        done.release()
        return item

    results = iter(FanOut(work, range(33), num_threads=2, ordered=True))
    reader_got: list[int] = []
    reader = threading.Thread(target=lambda: reader_got.extend(results))
    reader.start()
    finished = [done.acquire(timeout=WAIT_S) for _ in range(32)]
    got_before = list(reader_got)
    released.set()
    reader.join(WAIT_S)

    assert all(finished)
    assert got_before == []
    assert reader_got == list(range(33))


@pytest.mark.parametrize("ordered", [False, True])
def test_the_window_is_bounded(ordered: bool) -> None:  # noqa: FBT001 - a case
    """Without a reader no more items are taken than the window holds."""
    taken: list[int] = []
    full = threading.Event()

    def source() -> Iterator[int]:
        for item in range(1000):
            taken.append(item)
            if len(taken) == 7:
                full.set()
            yield item

    results = iter(FanOut(abs, source(), num_threads=3, window=6, ordered=ordered))
    first = next(results)
    assert full.wait(WAIT_S)
    most = [len(taken) - read for read in range(1, 50) if next(results) is not None]
    results.close()

    assert first >= 0
    # One more than the window: the item that the source gives while a thread asks.
    assert max(most) <= 6 + 1


def test_the_source_is_taken_from_lazily() -> None:
    """Nothing is taken before someone reads."""
    taken: list[int] = []
    fan_out = FanOut(abs, recorded(range(3), taken), num_threads=1)

    assert taken == []
    assert list(fan_out) == [0, 1, 2]


def test_a_source_that_waits_holds_no_result_back() -> None:
    """Results are read while the source still waits for its next item."""
    released = threading.Event()

    def source() -> Iterator[int]:
        yield 1
        assert released.wait(WAIT_S)
        yield 2

    results = iter(FanOut(abs, source(), num_threads=4))
    first = next(results)
    released.set()

    assert (first, *results) == (1, 2)


def test_an_early_close_takes_no_more_items_and_leaves_no_thread() -> None:
    """Who leaves early waits for what runs, and nothing more is started."""
    taken: list[int] = []
    results = iter(FanOut(abs, recorded(range(1000), taken), num_threads=4))
    next(results)
    results.close()
    count = len(taken)
    wait_for_no_thread()

    assert count <= 1 + 2 * 4 + 1
    assert len(taken) == count
    assert live() == set()


def test_stop_lets_running_items_finish() -> None:
    """After ``stop`` the items that are being worked on still give results."""
    meeting = threading.Barrier(3, timeout=WAIT_S)
    released = threading.Event()

    def work(item: int) -> int:
        meeting.wait()
        assert released.wait(WAIT_S)
        return item

    fan_out = FanOut(work, itertools.count(), num_threads=2)
    results: list[int] = []
    reader = threading.Thread(target=lambda: results.extend(fan_out))
    reader.start()
    meeting.wait()
    fan_out.stop()
    released.set()
    reader.join(WAIT_S)

    assert not reader.is_alive()
    assert sorted(results) == [0, 1]


def test_stop_ends_while_the_source_waits() -> None:
    """``stop`` ends the iteration even where the source never gives another item."""
    released, asked = threading.Event(), threading.Event()

    def source() -> Iterator[int]:
        yield 1
        asked.set()
        released.wait(WAIT_S)

    fan_out = FanOut(abs, source(), num_threads=2)
    results: list[int] = []
    reader = threading.Thread(target=lambda: results.extend(fan_out))
    reader.start()
    assert asked.wait(WAIT_S)
    fan_out.stop()
    reader.join(WAIT_S)
    ended = not reader.is_alive()
    released.set()
    wait_for_no_thread()

    assert ended
    assert results == [1]


@pytest.mark.parametrize("ordered", [False, True])
def test_what_work_raises_reaches_the_reader(ordered: bool) -> None:  # noqa: FBT001
    """An exception of the work is raised to the reader, and no thread is left."""

    def work(item: int) -> int:
        if item == 3:
            raise LookupError("item 3")
        return item

    with pytest.raises(LookupError, match="item 3"):
        list(FanOut(work, range(100), num_threads=2, ordered=ordered))

    wait_for_no_thread()
    assert live() == set()


@pytest.mark.parametrize("ordered", [False, True])
def test_what_the_source_raises_comes_last(ordered: bool) -> None:  # noqa: FBT001
    """Results of all items that the source gave are read before its exception."""
    failed = threading.Event()

    def source() -> Iterator[int]:
        yield from range(3)
        failed.set()
        raise OSError("the disk is gone")

    def work(item: int) -> int:
        assert failed.wait(WAIT_S)
        return item

    results: list[int] = []
    with pytest.raises(OSError, match="the disk is gone"):
        list(recorded(FanOut(work, source(), num_threads=4, ordered=ordered), results))

    assert sorted(results) == [0, 1, 2]


@pytest.mark.parametrize("ordered", [False, True])
def test_a_closed_reader_does_not_hear_of_the_source(ordered: bool) -> None:  # noqa: FBT001
    """Who has left is not told what the source raised since."""

    def source() -> Iterator[int]:
        yield 1
        raise OSError("the disk is gone")

    results = iter(FanOut(abs, source(), num_threads=1, ordered=ordered))
    first = next(results)
    results.close()

    assert first == 1


def test_context_variables_reach_the_work() -> None:
    """The work sees the context variables of who made the fan-out."""
    variable: ContextVar[str] = ContextVar("variable")
    token = variable.set("seen")
    seen = list(FanOut(lambda _: variable.get(""), range(9), num_threads=3))
    variable.reset(token)

    assert seen == ["seen"] * 9


def test_no_more_threads_than_asked() -> None:
    """At most as many items are worked on at once as there are threads."""
    busy, most, lock = 0, 0, threading.Lock()

    def work(item: int) -> int:
        nonlocal busy, most
        with lock:
            busy += 1
            most = max(most, busy)
        with lock:
            busy -= 1
        return item

    list(FanOut(work, range(200), num_threads=3))

    assert most <= 3


def test_zero_threads_are_refused() -> None:
    """A fan-out without threads would never end."""
    with pytest.raises(ValueError, match="at least 1, not 0"):
        FanOut(abs, [1], num_threads=0)


def test_auto_is_the_references_rule() -> None:
    """``auto`` gives 96 threads, or 16 for each core where that is more."""
    assert auto_num_threads() >= 96


@pytest.mark.parametrize("ordered", [False, True])
def test_batches_are_the_same_results(ordered: bool) -> None:  # noqa: FBT001 - a case
    """Read several at a time, each item gives its result once, in order where asked."""
    fan_out = FanOut(abs, range(500), num_threads=3, ordered=ordered)
    batches = list(fan_out.batches(most=7))
    results = [result for batch in batches for result in batch]

    assert (results if ordered else sorted(results)) == list(range(500))
    assert max(map(len, batches)) <= 7 or ordered


@pytest.mark.parametrize("ordered", [False, True])
def test_batches_end_with_what_was_raised(ordered: bool) -> None:  # noqa: FBT001
    """What the source raises comes after the results of all that it gave."""

    def source() -> Iterator[int]:
        yield from range(3)
        raise OSError("the disk is gone")

    results: list[int] = []
    batches = FanOut(abs, source(), num_threads=2, ordered=ordered).batches()
    with pytest.raises(OSError, match="the disk is gone"):
        list(recorded((result for batch in batches for result in batch), results))

    assert sorted(results) == [0, 1, 2]


def test_abandoned_batches_wait_for_nobody() -> None:
    """After ``abandon`` the iteration ends though an item is still being worked on."""
    working, released = threading.Event(), threading.Event()

    def work(item: int) -> int:
        working.set()
        released.wait(WAIT_S)
        return item

    fan_out = FanOut(work, range(9), num_threads=1)
    results: list[list[int]] = []
    reader = threading.Thread(target=lambda: results.extend(fan_out.batches()))
    reader.start()
    assert working.wait(WAIT_S)
    fan_out.abandon()
    reader.join(WAIT_S)
    ended = not reader.is_alive()
    released.set()
    wait_for_no_thread()

    assert (ended, results) == (True, [])


@pytest.mark.parametrize("ordered", [False, True])
def test_what_is_finished_when_abandoned_is_read(
    ordered: bool,  # noqa: FBT001 - a case
) -> None:
    """One item hangs: those behind it, held back for the order or not, are read."""
    all_begun, released = threading.Barrier(4), threading.Event()

    def work(item: int) -> int:
        if item in {1, 4}:
            all_begun.wait(WAIT_S)
            released.wait(WAIT_S)
        return item

    def source() -> Iterator[int]:
        yield from range(8)
        all_begun.wait(WAIT_S)  # the one thread that does not hang did all the others
        released.wait(WAIT_S)

    fan_out = FanOut(work, source(), num_threads=3, window=40, ordered=ordered)
    results: list[int] = []

    def read() -> None:
        for batch in fan_out.batches(most=2):
            results.extend(batch)

    reader = threading.Thread(target=read)
    reader.start()
    all_begun.wait(WAIT_S)
    fan_out.abandon()
    reader.join(WAIT_S)
    ended = not reader.is_alive()
    released.set()
    wait_for_no_thread()

    assert ended
    assert (results if ordered else sorted(results)) == [0, 2, 3, 5, 6, 7]


def test_what_ends_after_it_was_abandoned_is_not_read() -> None:
    """A slow reader does not get what was finished later than that."""
    working, released = threading.Event(), threading.Event()

    def work(item: int) -> int:
        if item:
            working.set()
            released.wait(WAIT_S)
        return item

    fan_out = FanOut(work, range(2), num_threads=1)
    batches = fan_out.batches()
    first = next(batches)
    assert working.wait(WAIT_S)
    fan_out.abandon()
    released.set()
    wait_for_no_thread()

    assert (first, list(batches)) == ([0], [])


class Scarce(threading.Thread):
    """A thread of which the system has only as many as ``left`` says."""

    left = 0

    def start(self) -> None:
        """Begin, if one is left."""
        if Scarce.left == 0:
            raise RuntimeError("can't start new thread")
        Scarce.left -= 1
        super().start()


@pytest.mark.parametrize("left", [1, 2])
def test_fewer_threads_do_all_the_work(
    monkeypatch: pytest.MonkeyPatch, left: int
) -> None:
    """Where the system gives no more threads, those that run take every item."""
    monkeypatch.setattr(Scarce, "left", left)
    monkeypatch.setattr(threading, "Thread", Scarce)

    assert sorted(FanOut(abs, range(50), num_threads=8)) == list(range(50))


def test_no_thread_at_all_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system gives no thread, the reader is told and does not wait."""
    monkeypatch.setattr(Scarce, "left", 0)
    monkeypatch.setattr(threading, "Thread", Scarce)

    with pytest.raises(RuntimeError, match="can't start new thread"):
        list(FanOut(abs, range(50), num_threads=8))
