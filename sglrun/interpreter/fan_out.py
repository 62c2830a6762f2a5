"""The fan-out: one function over many items, in a sliding window of threads.

There is no barrier: a thread that is free takes the next item, and at most a window of
items is held between the source and the reader of the results.
"""

import contextvars
import os
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class _Done(Generic[R]):
    number: int
    result: R | None
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class _Abandoned:
    """What is done after it gives no result."""


class _InOrder(Generic[R]):
    """Holds results back until those before them have come."""

    def __init__(self) -> None:
        self._waiting: dict[int, _Done[R]] = {}
        self._following = 0

    def ready(self, came: list[_Done[R]]) -> list[_Done[R]]:
        """Take what *came*; return what may go on, in order."""
        self._waiting.update((done.number, done) for done in came)
        ready = []
        while self._following in self._waiting:
            ready.append(self._waiting.pop(self._following))
            self._following += 1
        return ready

    def rest(self) -> list[_Done[R]]:
        """Take what is behind a gap, in order."""
        return [self._waiting.pop(number) for number in sorted(self._waiting)]


def auto_num_threads() -> int:
    """Return SGLang's ``num_threads="auto"``: 96, or 16 for each core."""
    return max(96, 16 * (os.cpu_count() or 1))


class FanOut(Generic[T, R]):
    """Results of ``work`` over ``items``; iterate over it once, from one thread.

    Items are taken lazily, one at a time, by the threads that work on them, so the
    source may wait for its own input without holding finished results back.
    """

    def __init__(
        self,
        work: Callable[[T], R],
        items: Iterable[T],
        *,
        num_threads: int,
        window: int | None = None,
        ordered: bool = False,
    ) -> None:
        """Prepare; nothing runs before the iteration.

        Args:
            work: called for each item, in many threads at once; what it raises is
                raised to the reader.
            items: the source; one thread at a time takes from it. What it raises is
                raised to the reader after the results of all that it gave.
            num_threads: items worked on at the same time; at least 1.
            window: items taken and not yet read as results; by default twice the
                threads, or 64 times in order, so that one slow item idles nobody.
            ordered: results come in the order of the items, not of completion.
        """
        if num_threads < 1:
            raise ValueError(f"num_threads must be at least 1, not {num_threads}")
        self._work = work
        self._items = iter(items)
        self._num_threads = num_threads
        self._ordered = ordered
        held = window or num_threads * (64 if ordered else 2)
        self._room = threading.Semaphore(max(held, num_threads))
        self._done: SimpleQueue[_Done[R] | _Abandoned | None] = SimpleQueue()
        self._taking = threading.Lock()
        self._state = threading.Lock()
        # Under the state lock; a wake-up (None) is queued whenever the end may be near.
        self._threads = 0
        self._taken = 0
        self._working = 0
        self._ended = False  # the source is exhausted, or must not be asked again
        self._is_over = False  # the reader's own: it was abandoned up to here
        self._source_error: BaseException | None = None
        self._context = contextvars.copy_context()
        self._left = threading.Event()

    @property
    def is_left(self) -> bool:
        """Whether who iterated left before the end: nobody gets what is not done."""
        return self._left.is_set()

    def stop(self) -> None:
        """Take no more items; those being worked on still give results."""
        self._end()
        self._room.release()
        self._done.put(None)

    def abandon(self) -> None:
        """Wait for nothing; items being worked on give no results, finished ones do."""
        self._end()
        self._room.release()
        self._done.put(_Abandoned())

    def batches(self, most: int = 256) -> Iterator[list[R]]:
        """Iterate over the results, as many at once as are there, *most* at most.

        What an item or the source raises is raised at the end: no more items are taken,
        and the results of those being worked on come first. Leaving early abandons
        them. Where it is abandoned from outside, results in order may have gaps.
        """
        error: BaseException | None = None
        try:
            for ready in self._ready(most):
                batch = [done.result for done in ready if done.error is None]
                if ready:
                    self._room.release(len(ready))
                error = error or next(
                    (d.error for d in ready if d.error is not None), None
                )
                if error is not None:
                    self.stop()
                if batch:
                    yield batch  # type: ignore[misc]
        finally:
            self.abandon()
        error = error or self._source_error
        if error is not None:
            raise error

    def _ready(self, most: int) -> Iterator[list[_Done[R]]]:
        in_order = _InOrder[R]() if self._ordered else None
        for first in self._completed():
            came = [first, *self._waiting(most - 1)]
            yield came if in_order is None else in_order.ready(came)
        if in_order is not None:
            yield in_order.rest()

    def _waiting(self, most: int) -> Iterator[_Done[R]]:
        """Take what waits to be read, without waiting for more."""
        for _ in range(most):
            if self._done.empty():
                return
            done = self._done.get()
            if done is None:
                self._done.put(None)  # the end, which must be seen by who waits for it
                return
            if isinstance(done, _Abandoned):
                self._is_over = True
                return
            yield done

    def __iter__(self) -> Generator[R, None, None]:
        """Iterate over the results; leaving early takes no more items and waits."""
        completed = self._completed()
        try:
            yield from (
                self._in_order(completed)
                if self._ordered
                else (self._unwrap(done) for done in completed)
            )
            if self._source_error is not None:
                raise self._source_error
        except BaseException:
            self._left.set()  # before the wait below
            raise
        finally:
            self.stop()
            for _ in completed:
                pass

    def _completed(self) -> Generator[_Done[R], None, None]:
        self._start_thread()
        while not self._is_over:
            with self._state:
                over = self._ended and not self._working
            if over and self._done.empty():
                return
            done = self._done.get()
            if isinstance(done, _Abandoned):
                return
            if done is not None:
                yield done

    def _in_order(self, completed: Iterable[_Done[R]]) -> Iterator[R]:
        in_order = _InOrder[R]()
        for done in completed:
            for each in in_order.ready([done]):
                yield self._unwrap(each)

    def _unwrap(self, done: _Done[R]) -> R:
        self._room.release()
        if done.error is not None:
            raise done.error
        return done.result  # type: ignore[return-value]

    def _start_thread(self) -> None:
        if self._threads >= self._num_threads:  # as nearly always; looked at again
            return
        with self._state:
            if self._ended or self._threads >= self._num_threads:
                return
            self._threads += 1
            name = f"sglrun-row-{self._threads}"
        context = self._context.copy()
        thread = threading.Thread(
            target=context.run, args=(self._run,), name=name, daemon=True
        )
        try:
            thread.start()
        except RuntimeError:  # the system has none left: those that run go on
            with self._state:
                self._threads -= 1
                alone = self._threads == 0
            if alone:
                raise

    def _run(self) -> None:
        while (taken := self._take()) is not None:
            number, item = taken
            self._start_thread()
            try:
                done = _Done(number, self._work(item))
            except BaseException as exc:  # noqa: BLE001 - handed to the reader
                done = _Done(number, None, exc)
            # First the result, then the count: who sees no work left has all results.
            self._done.put(done)
            with self._state:
                self._working -= 1
                if self._ended and not self._working:
                    self._done.put(None)
        self._room.release()
        self._done.put(None)

    def _take(self) -> tuple[int, T] | None:
        self._room.acquire()
        with self._taking:
            if self._ended:
                return None
            try:
                item = next(self._items)
            except StopIteration:
                self._end()
                return None
            except BaseException as exc:  # noqa: BLE001 - handed to the reader
                self._source_error = exc
                self._end()
                return None
            return self._claim(item)

    def _claim(self, item: T) -> tuple[int, T] | None:
        with self._state:
            if self._ended:  # while the source was waiting for its input
                return None
            self._taken += 1
            self._working += 1
            return self._taken - 1, item

    def _end(self) -> None:
        with self._state:
            self._ended = True
