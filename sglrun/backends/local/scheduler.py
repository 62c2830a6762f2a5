"""The scheduler: which tokens of which jobs make up the next step.

Rule: only the engine's thread calls it. Every running lane that generates gets its
next token into each step, prompts fill what is left, and what several prompts begin
with is computed by the first of them. Jobs begin with room for a start; where it runs
short, the youngest are put off, and what they had computed is kept as far as there is
room.
"""

from collections import deque

from sglrun.backends.local.cache import PrefixCache
from sglrun.backends.local.composition import TokenJoin
from sglrun.backends.local.computer import Computer
from sglrun.backends.local.context import CACHE_FULL, Entry
from sglrun.backends.local.job import Job, JoinLostError, Lane, PromptLane
from sglrun.backends.local.joining import join_branches
from sglrun.backends.local.radix import Match
from sglrun.backends.local.waiting_line import WaitingLine
from sglrun.errors import BackendError, BadRequestError

# Jobs that run at once: what one exact pass takes, and below 64, from where on the
# other kernel reads the cells of all texts for each. Beyond, a step only takes longer.
_JOBS_AT_ONCE = 48
# Tokens that a sequence may hold although another does: the last of a prompt, which is
# computed again for its logits. There is room for them.
_TWICE = 1
# Cells that a lane gets when it needs more.
_GROWTH = 64


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
            context, cells=settings.tokens, sequences=settings.sequences
        )
        self._waiting = WaitingLine()
        self._running: dict[Job, None] = {}
        self._lanes: dict[Lane, Job] = {}
        self._prompts: dict[int, PromptLane] = {}  # by the tree's sequence
        self._ended: deque[tuple[Job, Exception | None]] = deque()
        self._is_short = False  # a step found no cells, though some were counted on

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do."""
        return not self._waiting and not self._running

    def add(self, job: Job) -> None:
        """Let *job* wait for its turn."""
        self._waiting.add(job)

    def join(self, join: TokenJoin) -> bool:
        """Put *join* into the cache; return whether it is there."""
        return join_branches(self.cache, self._context, join, self._usable)

    def fail_all(self, cause: BaseException) -> None:
        """End every job with *cause*, and leave the context as it is."""
        ended = (job for job, _ in self._ended)
        for job in (*ended, *self._running, *self._waiting):
            job.finish(cause)
        self._running.clear()
        self._waiting.clear()
        self._lanes.clear()

    def step(self) -> None:
        """Begin what can begin, and compute one step of what runs."""
        self._drop_cancelled()
        self._admit()
        entries, served = self._plan()
        if len(entries) > self._context.room:
            self.cache.thin_out()
            self._context.compact()
        self._context.tidy()
        if entries and self._context.decode(entries) == CACHE_FULL:
            self._relieve()
        else:
            for lane, positions, _ in served:
                lane.computed = positions.stop
            for lane, positions, index in served:
                self._read(lane, positions, index)
            self.cache.expire(len(entries))
        while self._ended:  # who wakes up takes the interpreter, so they do last
            job, cause = self._ended.popleft()
            job.finish(cause)

    # Beginning.

    def _admit(self) -> None:
        if self._is_short or len(self._running) >= _JOBS_AT_ONCE:
            return
        # What a running job computes already counts as known.
        for job in self._waiting.in_turn(lambda x: self.cache.match(x.prompt).length):
            match = self.cache.match(job.prompt)
            if self._usable(match) < match.length:
                continue  # a running prompt computes what it begins with
            if not self._begin(job):
                return
            self._waiting.take(job)
            if len(self._running) >= _JOBS_AT_ONCE:
                return

    def _usable(self, match: Match) -> int:
        lane = None if match.holder is None else self._prompts.get(match.holder)
        return match.length if lane is None else min(match.length, lane.computed)

    def _begin(self, job: Job) -> bool:
        """Start *job* if all that it may need is there; a hopeless one ends here."""
        if len(job.prompt) + job.longest > self.cache.cells:
            return self._refuse(job)
        spare = self.cache.cells - len(job.prompt)
        job.at_once = min(job.lanes_within(spare), self.cache.sequences - 1)
        match = self._room_for(job)
        if match is None and self._running:
            return False
        if match is None:  # nothing else that ends could make room
            return self._begin(job) if self.cache.unpin() else self._refuse(job)
        usable = min(self._usable(match), job.wanted_from, len(job.prompt) - 1)
        if usable < job.joined:
            job.finish(JoinLostError())
            return True
        lane = PromptLane(job, computed=usable)
        lane.sequence = self.cache.take(match.holder, usable)
        job.uncounted = match.length - usable
        if job.uncounted <= _TWICE:
            job.node, job.is_shared = self.cache.begin(job.prompt, lane.sequence)
        else:  # what is known may be given up meanwhile
            job.node, job.is_shared = None, False
            job.uncounted = len(job.prompt)
        job.cached_tokens = job.cached_tokens if job.was_read else usable
        job.prompt_lane = lane
        if job.is_shared:
            self._prompts[lane.sequence] = lane
        self.cache.promised += job.at_once * job.share + job.uncounted
        self.cache.promised_sequences += job.at_once
        self._running[job] = None
        self._lanes[lane] = job
        return True

    def _room_for(self, job: Job) -> Match | None:
        """Make room for *job*; return what is known of its prompt, if there is room."""
        while True:
            match = self.cache.match(job.prompt)
            kept = min(self._usable(match), job.wanted_from, len(job.prompt) - 1)
            needed = len(job.prompt) - kept + job.cells_of(job.at_once)
            if not (
                self.cache.could_hold(needed)
                and self.cache.make_room(needed, 1 + job.at_once)
            ):
                return None
            left = self.cache.match(job.prompt)  # another may hold it now
            if left.length == match.length:
                return left

    def _refuse(self, job: Job) -> bool:
        message = (
            f"a prompt of {len(job.prompt)} tokens and {job.longest} more do not fit "
            f"in the {self.cache.cells} that the engine holds"
        )
        job.finish(BadRequestError(message))
        return True

    # Computing.

    def _plan(self) -> tuple[list[Entry], list[tuple[Lane, range, int]]]:
        """Return the next step: its tokens; whose they are, where, and from which."""
        left = self._context.settings.batch
        entries: list[Entry] = []
        served: list[tuple[Lane, range, int]] = []
        for lane in self._in_order():
            start = lane.computed
            positions = range(start, min(start + left, len(lane.tokens)))
            if positions and self._has_room(lane, positions.stop):
                served.append((lane, positions, len(entries)))
                entries.extend(
                    Entry(
                        lane.tokens[at], at, lane.sequence or 0, at >= lane.wanted_from
                    )
                    for at in positions
                )
                left -= len(positions)
        return entries, served

    def _in_order(self) -> list[Lane]:
        """Return lanes that generate before prompts, each in order of arrival."""
        lanes: list[Lane] = [lane for job in self._running for lane in job.running]
        lanes += [x for x in self._lanes if isinstance(x, PromptLane)]
        return lanes

    def _has_room(self, lane: Lane, length: int) -> bool:
        """Set cells aside so that *lane* can hold *length* tokens; or put it off."""
        job = self._lanes.get(lane)
        if job is None:  # put off for one before it
            return False
        # All after the prompt, which is locked: the rest may be given up by the tree.
        missing = length - len(job.prompt) - job.share - lane.granted
        if lane is job.prompt_lane or missing <= 0:
            return True
        granted = missing + _GROWTH
        while not self.cache.make_room(granted, 0):
            if granted > missing:
                granted = missing
            elif not self._yield_room(job):
                break  # it fits by itself, so some that is counted is not there
            elif lane not in self._lanes:
                return False
        lane.granted += granted
        self.cache.promised += granted
        return True

    def _read(self, lane: Lane, positions: range, index: int) -> None:
        job = self._lanes.get(lane)
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
            job = next(reversed(self._running))
            if not self._yield_room(job):
                self._end(job, BadRequestError("the engine's KV cache is full"))

    # Putting off.

    def _yield_room(self, job: Job) -> bool:
        """Put off the youngest for *job*, or part of it, or loosen pins; or fail."""
        running = reversed(self._running)
        youngest = next((other for other in running if other.running), job)
        if youngest is not job:
            self._put_off(youngest)
        elif len(job.running) > 1:
            last = next(reversed(job.running))
            self._leave(job, last, keeps=True)
            job.ready.append(last)
        elif len(self._running) > 1:
            self._put_off(job)
        else:
            return self.cache.unpin()
        return True

    def _put_off(self, job: Job) -> None:
        """Let *job* wait, first in turn, and go on later from what is still known."""
        for lane in reversed(tuple(job.running)):
            self._leave(job, lane, keeps=True)
            job.ready.appendleft(lane)
        self._release(job)
        self._waiting.add_first(job)

    # Ending.

    def _end_lane(self, job: Job, lane: Lane) -> None:
        if lane is job.prompt_lane:
            self._prompts.pop(lane.sequence or 0, None)
            del self._lanes[lane]
            if not job.was_read:
                job.was_read = True
                job.ready.extend(job.lanes())
        else:
            self._leave(job, lane, keeps=lane.is_kept)
            job.ready.extend(lane.following())
        while job.ready and len(job.running) < job.at_once:
            following = job.ready.popleft()
            if not following.done:
                self._start(job, following)
        if not job.running:
            self._end(job, None)

    def _start(self, job: Job, lane: Lane) -> None:
        """Let *lane* go on from the prompt, or from what is known of it beyond."""
        assert job.prompt_lane is not None  # noqa: S101 - it has been computed
        source, length = job.prompt_lane.sequence, len(job.prompt)
        if lane.wanted_from > length:
            self.cache.make_room(0, 0)  # now, or what is found could have to go for it
            match = self.cache.match(tuple(lane.tokens))
            known = min(self._usable(match), lane.wanted_from, len(lane.tokens) - 1)
            if known > length:
                source, length = match.holder, known
        lane.sequence = self.cache.take(source, length)
        lane.computed = length
        self.cache.promised_sequences -= 1
        job.running[lane] = None
        self._lanes[lane] = job

    def _leave(self, job: Job, lane: Lane, *, keeps: bool) -> None:
        """Take the sequence from *lane*; *keeps*: a later prompt may use it."""
        del job.running[lane]
        del self._lanes[lane]
        self.cache.promised_sequences += 1
        self.cache.promised -= lane.granted
        lane.granted = 0
        assert lane.sequence is not None  # noqa: S101 - it has run
        if keeps and job.node is not None:
            self.cache.hold(tuple(lane.tokens[: lane.computed]), lane.sequence)
        else:
            self.cache.give_back(lane.sequence)
        lane.sequence = None

    def _end(self, job: Job, cause: Exception | None) -> None:
        """Take everything from *job* and tell who waits for it."""
        self._is_short = False
        for lane in tuple(job.running):
            self._leave(job, lane, keeps=lane.done and lane.is_kept)
        if cause is None and job.is_pinned and job.node is not None:
            self.cache.pin(job.node)
        self._release(job)
        self._ended.append((job, cause))

    def _release(self, job: Job) -> None:
        """Take the prompt from *job*, and all that is set aside for it."""
        prompt = job.prompt_lane
        assert prompt is not None  # noqa: S101 - the job has begun
        assert prompt.sequence is not None  # noqa: S101
        self._lanes.pop(prompt, None)
        self._prompts.pop(prompt.sequence, None)
        if job.node is not None:
            self.cache.end(job.node, prompt.computed if job.is_shared else None)
        if not job.is_shared:
            self.cache.give_back(prompt.sequence)
        self.cache.promised -= job.at_once * job.share + job.uncounted
        self.cache.promised_sequences -= job.at_once
        del self._running[job]

    def _drop_cancelled(self) -> None:
        cause = BackendError("nobody waits for the answer any more")
        for job in [job for job in self._running if job.cancelled]:
            self._end(job, cause)
        for job in [job for job in self._waiting if job.cancelled]:
            self._waiting.remove(job)
            job.finish(cause)
