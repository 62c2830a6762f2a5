"""The schedule: rows whose prompts begin alike, next to each other.

The first prompts of rows form a radix tree. Depth first is the order in which text that
several rows share is read once and used until nobody needs it any more; it is also the
order of the texts as strings, so that sorting goes through the tree without building
it.

Rows are sorted within a window, not over the whole input on disk: stdin may never end,
the first results are to come before the last row is read, memory is bounded, and a
cache holds no more than some thousand prompts anyway. What it costs: text whose rows
lie farther apart is read once in each window. Every other window goes back, so that the
end of one and the beginning of the next are the same part of the tree.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import dropwhile, pairwise
from operator import attrgetter

from sglrun.batch.results import RowResult
from sglrun.batch.rows import Row, given
from sglrun.interpreter.program import Program
from sglrun.interpreter.tracing.graph import known_text
from sglrun.interpreter.tracing.value import Fragment

WINDOW_ROWS = 8192
WINDOW_BYTES = 64 << 20


class Schedule:
    """Rows in the order of what their prompts begin with.

    One thread at a time takes rows; another may put results back in order.
    """

    def __init__(
        self,
        rows: Iterable[Row],
        key: Callable[[Row], str],
        *,
        window_rows: int = WINDOW_ROWS,
        window_bytes: int = WINDOW_BYTES,
        restores: bool = True,
    ) -> None:
        """Take *rows* as they are asked for, a window at a time.

        Args:
            rows: in the order of the input.
            key: what a row's first prompt begins with, as far as it is known.
            window_rows: rows that are looked at together, at most.
            window_bytes: the size of their lines and keys together; one more row may
                exceed it.
            restores: ``restored`` will be asked; otherwise the order of the input is
                not kept.
        """
        self._rows = rows
        self._key = key
        self._window_rows = window_rows
        self._window_bytes = window_bytes
        self._restores = restores
        # Appended to by who takes rows, read by who puts results in order.
        self._read: deque[int] = deque()

    def __iter__(self) -> Iterator[Row]:
        """Iterate over all rows, each once; waits for a window to be read."""
        backwards = False
        for window in self._windows():
            window.sort(key=lambda pair: (pair[0], pair[1].index), reverse=backwards)
            yield from (row for _, row in window)
            window.clear()  # before the next one is read
            backwards = not backwards

    def restored(
        self, batches: Iterable[Sequence[RowResult]]
    ) -> Iterator[list[RowResult]]:
        """Yield results in the order of the input, as soon as those before are there.

        *batches* hold them in the order of this schedule, so at most a window of them
        waits. Results that follow a row without one come at the end, and what *batches*
        raise after that.
        """
        waiting: dict[int, RowResult] = {}
        error: Exception | None = None
        try:
            for batch in batches:
                waiting.update((result.index, result) for result in batch)
                if ready := self._ready(waiting):
                    yield ready
        except Exception as exc:  # noqa: BLE001 - raised after what is finished
            error = exc
        if waiting:
            yield sorted(waiting.values(), key=attrgetter("index"))
        if error is not None:
            raise error

    def _ready(self, waiting: dict[int, RowResult]) -> list[RowResult]:
        """Take the results out of *waiting* before which none is missing."""
        ready = []
        while self._read and self._read[0] in waiting:
            ready.append(waiting.pop(self._read.popleft()))
        return ready

    def _windows(self) -> Iterator[list[tuple[str, Row]]]:
        window: list[tuple[str, Row]] = []
        size = 0
        for row in self._rows:
            if self._restores:
                self._read.append(row.index)
            key = self._key(row)
            window.append((key, row))
            size += len(row.content) + len(key)
            if len(window) >= self._window_rows or size >= self._window_bytes:
                yield window
                window, size = [], 0
        if window:
            yield window


def prompt_key(
    program: Program, known: Callable[[], Sequence[Fragment]]
) -> Callable[[Row], str]:
    """Return what tells of a row how its first prompt begins.

    What all rows say first is left out: it tells no row from another, and a long one
    would be held for each row of a window.

    Args:
        program: what is run.
        known: gives the first prompt as the tracer knows it; asked for each row.
    """

    def key(row: Row) -> str:
        own = dropwhile(lambda part: isinstance(part, str), known())
        return known_text(own, given(row, program).arguments)

    return key


def shared_length(texts: Iterable[str]) -> int:
    """Return how many characters of *texts*, in this order, their forerunner has.

    This is what a cache that holds one prompt saves.
    """
    return sum(_common_length(one, other) for one, other in pairwise(texts))


def shared_beginnings(texts: Iterable[str]) -> Iterator[str]:
    """Yield what need not be read again of each of *texts* where nothing is forgotten.

    Together they are all that the radix tree of *texts* spares.
    """
    for one, other in pairwise(sorted(texts)):
        yield other[: _common_length(one, other)]


def _common_length(one: str, other: str) -> int:
    longest = min(len(one), len(other))
    if one[:longest] == other[:longest]:
        return longest
    low, high = 0, longest  # the first low characters are the same, high are not
    while high - low > 1:
        middle = (low + high) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle
    return low
