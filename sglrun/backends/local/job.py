"""Jobs: what the engine is asked for, as lanes of tokens to compute.

A job has one prompt. Once that is computed, the job names the lanes that go on from
it; once they are done, it has its result.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from itertools import accumulate, islice, repeat

from sglrun.backends.local.context import Logits
from sglrun.backends.local.radix import Node, Tokens

# Cells that are set aside for a lane when it begins; it gets more as it grows.
_SHARE = 64
_LANES_AT_ONCE = 32


class JoinLostError(Exception):
    """What was joined for a job has been given up; it is to be joined again."""


class Lane(ABC):
    """A run of tokens that is computed into one sequence.

    Attributes:
        tokens: those to compute, from the first of the prompt on; a lane that
            generates adds to them.
        computed: how many of them the sequence holds.
        granted: cells that are set aside for it beyond its share of the job's.
        wanted_from: the first position whose logits ``read`` is to see.
        sequence: the sequence, once the lane runs.
        done: nothing more is to be computed.
        is_kept: what it computed is likely to begin a later prompt.
    """

    is_kept = False

    def __init__(self, tokens: Tokens, *, computed: int, wanted_from: int) -> None:
        """Go on from *computed* tokens that another sequence holds."""
        self.tokens = list(tokens)
        self.computed = computed
        self.granted = 0
        self.wanted_from = wanted_from
        self.sequence: int | None = None
        self.done = False

    @abstractmethod
    def read(self, position: int, logits: Logits) -> None:
        """Take the logits at *position*; they are valid during this call only."""

    def following(self) -> tuple["Lane", ...]:
        """Return lanes that go on from this one, which is done."""
        return ()


class Job(ABC):
    """A prompt, the lanes after it, and the future of its result.

    Attributes:
        prompt: at least one token.
        joined: tokens of the prompt that must be known: they cannot be computed.
        wanted_from: the first position of the prompt whose logits are wanted.
        lane_cells: cells that each lane may need; empty where none will follow.
        cancelled: nobody waits for the result; set by any thread.
        cached_tokens: tokens of the prompt that were not computed again.
        at_once: lanes that may run at once, for which cells are set aside.
        was_read: the prompt has been computed once; a job that was put off for want
            of room goes on from its lanes.
        passed_over: jobs that came later and began earlier.
        ready: lanes that have not begun, or were put off.
        running: lanes that have, the prompt's excepted.
        prompt_lane: the prompt's, once the job has begun.
        node: the prompt in the tree; ``None`` where much that the tree knows is
            computed again for its logits.
        is_shared: the sequence of the prompt is the tree's.
        uncounted: tokens of the prompt that are in no count of the tree's.
        is_pinned: the prompt is to stay when the job is done.
        is_awaited: the prompt is to be among ``kept`` then.
        kept: what is kept for the job until it begins, or for who awaits its end.
    """

    is_pinned = False
    is_awaited = False

    def __init__(
        self,
        prompt: Tokens,
        *,
        lane_cells: tuple[int, ...] = (),
        wanted_from: int | None = None,
    ) -> None:
        """Take what is to be computed."""
        self.prompt = prompt
        self.joined = 0
        self.wanted_from = len(prompt) - 1 if wanted_from is None else wanted_from
        self.lane_cells = lane_cells
        self.future: Future[None] = Future()
        self.cancelled = False
        self.cached_tokens = 0
        self.at_once = 0
        self.was_read = False
        self.passed_over = 0
        self.ready: deque[Lane] = deque()
        self.running: dict[Lane, None] = {}
        self.prompt_lane: PromptLane | None = None
        self.node: Node | None = None
        self.is_shared = False
        self.uncounted = 0
        self.kept: tuple[Node, ...] = ()

    @property
    def longest(self) -> int:
        """Cells that its largest lane may need."""
        return max(self.lane_cells, default=0)

    @property
    def share(self) -> int:
        """Cells that are set aside for a lane when it begins."""
        return min(_SHARE, self.longest)

    def cells_of(self, lanes: int) -> int:
        """Return the cells after the prompt that so many lanes need to go on."""
        return sum(islice(self._cells_to_go_on(), lanes))

    def lanes_within(self, cells: int) -> int:
        """Return how many lanes may run at once where *cells* are there for them."""
        needed = tuple(accumulate(self._cells_to_go_on()))
        fitting = sum(each <= cells for each in needed)
        return min(len(needed), _LANES_AT_ONCE, max(1, fitting))

    def _cells_to_go_on(self) -> Iterator[int]:
        """Yield what each lane needs, the first to run first, with what it wrote."""
        if not self.was_read:
            yield from repeat(self.share, len(self.lane_cells))
        for lane in self.ready:
            written = len(lane.tokens) - len(self.prompt)
            yield min(written + self.share, self.longest)

    @abstractmethod
    def read(self, position: int, logits: Logits) -> None:
        """Take the logits at *position* of the prompt, during this call only."""

    @abstractmethod
    def lanes(self) -> tuple[Lane, ...]:
        """Return the lanes after the prompt, which is computed now."""

    def close(self) -> None:  # noqa: B027 - most jobs own nothing
        """Let go of what the job owns beside memory."""

    def finish(self, cause: BaseException | None) -> None:
        """Tell who waits that the job is done, or why it could not be."""
        self.close()
        if cause is None:
            self.future.set_result(None)
        else:
            self.future.set_exception(cause)


class PromptLane(Lane):
    """The prompt of a job."""

    def __init__(self, job: Job, *, computed: int) -> None:
        """Compute the prompt of *job* beyond *computed* tokens."""
        super().__init__(job.prompt, computed=computed, wanted_from=job.wanted_from)
        self._job = job

    def read(self, position: int, logits: Logits) -> None:
        """Hand the logits to the job once; those of the last token end the lane."""
        if not self._job.was_read:
            self._job.read(position, logits)
        self.done = position == len(self.tokens) - 1


class ReadJob(Job):
    """A prompt that is computed for what comes next."""

    def read(self, position: int, logits: Logits) -> None:
        """Need nothing of the logits."""

    def lanes(self) -> tuple[Lane, ...]:
        """Return none."""
        return ()


class BranchJob(ReadJob):
    """A prompt that is to be joined with others."""

    is_awaited = True


class PrefixJob(ReadJob):
    """A prompt that later prompts begin with."""

    is_pinned = True
