"""The scheduler: which tokens of which jobs make up the next step.

Rule: only the engine's thread calls it. Every running lane that generates gets its
next token into each step, prompts fill up the last pass through the layers, and what
several prompts begin with is computed by the first of them.
"""

from collections import deque
from collections.abc import Iterable

from sglrun.backends.local.cache import PrefixCache
from sglrun.backends.local.composition import TokenJoin
from sglrun.backends.local.computer import Computer
from sglrun.backends.local.context import CACHE_FULL
from sglrun.backends.local.job import Job, Lane, PromptLane
from sglrun.backends.local.joining import join_branches
from sglrun.backends.local.radix import Node
from sglrun.backends.local.running_jobs import RunningJobs
from sglrun.backends.local.step import Entry
from sglrun.backends.local.waiting_line import WaitingLine
from sglrun.errors import BackendError, BadRequestError

# Jobs that run at once: what one exact pass takes, and below 64, from where on the
# other kernel reads the cells of all texts for each. Beyond, a step only takes longer.
JOBS_AT_ONCE = 48


class Scheduler:
    """Jobs that wait and jobs that run, over one context.

    Attributes:
        cache: what is computed already.
    """

    def __init__(self, context: Computer) -> None:
        """Begin with nothing to do."""
        self._context = context
        settings = context.settings
        self.cache = PrefixCache(
            context,
            cells=settings.tokens,
            sequences=settings.sequences,
            worth=context.attention.worth,
        )
        self._waiting = WaitingLine()
        self._running = RunningJobs(self.cache, self._waiting)
        self._ended: deque[tuple[Job, Exception | None]] = deque()
        self._is_short = False  # a step found no cells, though some were counted on

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do."""
        return not self._waiting and not self._running

    def add(self, job: Job) -> None:
        """Let *job* wait for its turn."""
        self._waiting.add(job)

    def join(self, join: TokenJoin, branches: Iterable[Job]) -> Node | None:
        """Put *join* into the cache, where it is kept; ``None`` where it is not there.

        Its *branches* were computed, and are kept no longer.
        """
        usable = self._running.usable
        node = join_branches(self.cache, self._context, join, usable)
        self.let_go(branches)
        return node

    def let_go(self, jobs: Iterable[Job]) -> None:
        """Keep nothing for *jobs* any more."""
        for job in jobs:
            self.cache.let_go(job.kept)
            job.kept = ()

    def fail_all(self, cause: BaseException) -> None:
        """End every job with *cause*, and leave the context as it is."""
        self._tell()
        for job in (*self._running, *self._waiting):
            job.finish(cause)
        self._running.clear()
        self._waiting.clear()

    def step(self) -> None:
        """Begin what can begin, and compute one step of what runs."""
        self._drop_cancelled()
        self._admit()
        entries, served = self._plan()
        if entries and self._context.decode(entries) == CACHE_FULL:
            self._relieve()
        else:
            for lane, positions, _ in served:
                lane.computed = positions.stop
            for lane, positions, index in served:
                self._read(lane, positions, index)
            self.cache.expire(len(entries))
        self._tell()  # who wakes up takes the interpreter, so they do last

    def _tell(self) -> None:
        """Tell who waits for the jobs that ended."""
        while self._ended:
            job, cause = self._ended.popleft()
            job.finish(cause)

    def _admit(self) -> None:
        if self._is_short or len(self._running) >= JOBS_AT_ONCE:
            return
        # What a running job computes already counts as known.
        for job in self._waiting.in_turn(lambda x: self.cache.match(x.prompt).length):
            match = self.cache.match(job.prompt)
            if self._running.usable(match) < match.length:
                continue  # a running prompt computes what it begins with
            if self._is_crowded(job, match.length):
                return
            if not self._running.begin(job):
                return
            self._waiting.take(job)
            self.let_go((job,))
            if len(self._running) >= JOBS_AT_ONCE:
                return

    def _is_crowded(self, job: Job, known: int) -> bool:
        """Return whether *job*, with *known* tokens, would rather slow the others down.

        A pass over the layers takes a while however few tokens it has, so the more
        jobs share it, the better; but each makes all others pass over its cells.
        """
        own = len(job.prompt) - known + job.share * len(job.lane_cells)
        running, attention = len(self._running), self._context.attention
        if self._running.left >= attention.step:  # none of it would be in the next step
            return True
        return running**2 * own > attention.crowd

    def _plan(self) -> tuple[list[Entry], list[tuple[Lane, range, int]]]:
        """Return the next step: its tokens; whose they are, where, and from which."""
        entries: list[Entry] = []
        served: list[tuple[Lane, range, int]] = []
        for lane in self._running.lanes():
            start, room = lane.computed, self._room_for(lane, len(entries))
            positions = range(start, min(start + room, len(lane.tokens)))
            if positions and self._running.has_room(lane, positions.stop):
                served.append((lane, positions, len(entries)))
                entries.extend(
                    Entry(
                        lane.tokens[at], at, lane.sequence or 0, at >= lane.wanted_from
                    )
                    for at in positions
                )
        return entries, served

    def _room_for(self, lane: Lane, taken: int) -> int:
        """Return how many tokens of *lane* go into a step that has *taken* already."""
        room, step = self._context.settings.batch - taken, self._context.attention.step
        if isinstance(lane, PromptLane):
            room = min(room, -taken % step if taken else step)
        return room

    def _read(self, lane: Lane, positions: range, index: int) -> None:
        job = self._running.job_of(lane)
        if job is None:  # ended with another lane of its job
            return
        try:
            for number, position in enumerate(positions, index):
                if position >= lane.wanted_from and not lane.done:
                    lane.read(position, self._context.logits(number))
            if lane.done:
                self._end_lane(job, lane)
        except Exception as exc:  # noqa: BLE001 - handed to who waits for the job
            self._end(job, exc)

    def _relieve(self) -> None:
        """Free cells after a step that found none: what is held twice is not counted.

        Nothing begins until a job has ended, or the counts would let it at once.
        """
        if not self.cache.evict():
            self._is_short = True
            *_, job = self._running
            if not self._running.yield_room(job):
                self._end(job, BadRequestError("the engine's KV cache is full"))

    def _end_lane(self, job: Job, lane: Lane) -> None:
        if lane is job.prompt_lane:
            self._running.leave_prompt(job.prompt_lane)
            if not job.was_read:
                job.was_read = True
                job.ready.extend(job.lanes())
        else:
            self._running.leave(job, lane, keeps=lane.is_kept)
            job.ready.extend(lane.following())
        while job.ready and len(job.running) < job.at_once:
            following = job.ready.popleft()
            if not following.done:
                self._running.start(job, following)
        if not job.running:
            self._end(job, None)

    def _end(self, job: Job, cause: Exception | None) -> None:
        """Take everything from *job*; who waits is told at the end of the step."""
        self._is_short = False
        for lane in tuple(job.running):
            self._running.leave(job, lane, keeps=lane.done and lane.is_kept)
        if cause is None and job.node is not None:
            if job.is_pinned:
                self.cache.pin(job.node)
            if job.is_awaited:
                self.cache.keep(job.node)
                job.kept = (job.node,)
        self._running.release(job)
        self._ended.append((job, cause))

    def _drop_cancelled(self) -> None:
        cause = BackendError("nobody waits for the answer any more")
        for job in [job for job in self._running if job.cancelled]:
            self._end(job, cause)
        for job in [job for job in self._waiting if job.cancelled]:
            self._waiting.remove(job)
            self.let_go((job,))
            job.finish(cause)
