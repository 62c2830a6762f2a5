"""The running jobs: what each holds of the cache, and who makes way for whom.

Rule: only the engine's thread calls it. A job begins with room for a start; where it
runs short later, the youngest is put off, and what it had computed is kept as far as
there is room.
"""

from collections.abc import Iterator

from sglrun.backends.local.cache import PrefixCache
from sglrun.backends.local.job import Job, JoinLostError, Lane, PromptLane
from sglrun.backends.local.radix import Match
from sglrun.backends.local.waiting_line import WaitingLine
from sglrun.errors import BadRequestError

# Tokens that a sequence may hold although another does: the last of a prompt, which is
# computed again for its logits. There is room for them.
_TWICE = 1
# Cells that a lane gets when it needs more.
_GROWTH = 64


class RunningJobs:
    """Jobs that have begun and not ended, by age."""

    def __init__(self, cache: PrefixCache, waiting: WaitingLine) -> None:
        """Begin with none; who makes way goes back to *waiting*."""
        self._cache = cache
        self._waiting = waiting
        self._jobs: dict[Job, None] = {}
        self._lanes: dict[Lane, Job] = {}
        self._prompts: dict[int, PromptLane] = {}  # by the tree's sequence

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._jobs)

    def __iter__(self) -> Iterator[Job]:
        """Yield them, the oldest first."""
        return iter(tuple(self._jobs))

    @property
    def left(self) -> int:
        """Tokens that they want computed now."""
        return sum(len(lane.tokens) - lane.computed for lane in self._lanes)

    def lanes(self) -> list[Lane]:
        """Return lanes that generate before prompts, each in order of arrival."""
        lanes: list[Lane] = [lane for job in self._jobs for lane in job.running]
        lanes += [x for x in self._lanes if isinstance(x, PromptLane)]
        return lanes

    def job_of(self, lane: Lane) -> Job | None:
        """Return the job that *lane* runs for, or ``None`` where it does not run."""
        return self._lanes.get(lane)

    def usable(self, match: Match) -> int:
        """Return how many tokens of *match* are computed; others are on the way."""
        lane = None if match.holder is None else self._prompts.get(match.holder)
        return match.length if lane is None else min(match.length, lane.computed)

    # Beginning.

    def begin(self, job: Job) -> bool:
        """Start *job* if all that it may need is there; a hopeless one ends here."""
        cache = self._cache
        if len(job.prompt) + job.longest > cache.cells:
            return self._refuse(job)
        spare = cache.cells - len(job.prompt)
        job.at_once = min(job.lanes_within(spare), cache.sequences - 1)
        match = self._room_for(job)
        if match is None and self._jobs:
            return False
        if match is None:  # nothing else that ends could make room
            return self.begin(job) if cache.loosen() else self._refuse(job)
        usable = self._usable_for(job, match)
        if usable < job.joined:
            job.finish(JoinLostError())
            return True
        lane = PromptLane(job, computed=usable)
        lane.sequence = cache.take(match.holder, usable)
        job.uncounted = match.length - usable
        if job.uncounted <= _TWICE:
            job.node, job.is_shared = cache.begin(job.prompt, lane.sequence)
        else:  # what is known may be given up meanwhile
            job.node, job.is_shared = None, False
            job.uncounted = len(job.prompt)
        job.cached_tokens = job.cached_tokens if job.was_read else usable
        job.prompt_lane = lane
        if job.is_shared:
            self._prompts[lane.sequence] = lane
        cache.promised += job.at_once * job.share + job.uncounted
        cache.promised_sequences += job.at_once
        self._jobs[job] = None
        self._lanes[lane] = job
        return True

    def _room_for(self, job: Job) -> Match | None:
        """Make room for *job*; return what is known of its prompt, if there is room."""
        while True:
            match = self._cache.match(job.prompt)
            kept = self._usable_for(job, match)
            needed = len(job.prompt) - kept + job.cells_of(job.at_once)
            if not (
                self._cache.could_hold(needed)
                and self._cache.make_room(needed, 1 + job.at_once)
            ):
                return None
            left = self._cache.match(job.prompt)  # another may hold it now
            if left.length == match.length:
                return left

    def _usable_for(self, job: Job, match: Match) -> int:
        return min(self.usable(match), job.wanted_from, len(job.prompt) - 1)

    def _refuse(self, job: Job) -> bool:
        message = (
            f"a prompt of {len(job.prompt)} tokens and {job.longest} more do not fit "
            f"in the {self._cache.cells} that the engine holds"
        )
        job.finish(BadRequestError(message))
        return True

    def start(self, job: Job, lane: Lane) -> None:
        """Let *lane* go on from the prompt, or from what is known of it beyond."""
        assert job.prompt_lane is not None  # noqa: S101 - it has been computed
        cache = self._cache
        source, length = job.prompt_lane.sequence, len(job.prompt)
        if lane.wanted_from > length:
            cache.make_room(0, 0)  # now, or what is found could have to go for it
            match = cache.match(tuple(lane.tokens))
            known = min(self.usable(match), lane.wanted_from, len(lane.tokens) - 1)
            if known > length:
                source, length = match.holder, known
        lane.sequence = cache.take(source, length)
        lane.computed = length
        cache.promised_sequences -= 1
        job.running[lane] = None
        self._lanes[lane] = job

    # Making way.

    def has_room(self, lane: Lane, length: int) -> bool:
        """Set cells aside so that *lane* can hold *length* tokens; or put it off."""
        job = self._lanes.get(lane)
        if job is None:  # put off for one before it
            return False
        # All after the prompt, which is locked: the rest may be given up by the tree.
        missing = length - len(job.prompt) - job.share - lane.granted
        if lane is job.prompt_lane or missing <= 0:
            return True
        granted = missing + _GROWTH
        while not self._cache.make_room(granted, 0):
            if granted > missing:
                granted = missing
            elif not self.yield_room(job):
                break  # it fits by itself, so some that is counted is not there
            elif lane not in self._lanes:
                return False
        lane.granted += granted
        self._cache.promised += granted
        return True

    def yield_room(self, job: Job) -> bool:
        """Put off the youngest for *job*, or part of it, or loosen pins; or fail."""
        running = reversed(self._jobs)
        youngest = next((other for other in running if other.running), job)
        if youngest is not job:
            self._put_off(youngest)
        elif len(job.running) > 1:
            last = next(reversed(job.running))
            self.leave(job, last, keeps=True)
            job.ready.append(last)
        elif len(self._jobs) > 1:
            self._put_off(job)
        else:
            return self._cache.loosen()
        return True

    def _put_off(self, job: Job) -> None:
        """Let *job* wait, first in turn, and go on later from what is still known."""
        for lane in reversed(tuple(job.running)):
            self.leave(job, lane, keeps=True)
            job.ready.appendleft(lane)
        self.release(job)
        self._waiting.add_first(job)

    # Ending.

    def leave(self, job: Job, lane: Lane, *, keeps: bool) -> None:
        """Take the sequence from *lane*; *keeps*: a later prompt may use it."""
        del job.running[lane]
        del self._lanes[lane]
        self._cache.promised_sequences += 1
        self._cache.promised -= lane.granted
        lane.granted = 0
        assert lane.sequence is not None  # noqa: S101 - it has run
        if keeps and job.node is not None:
            self._cache.hold(tuple(lane.tokens[: lane.computed]), lane.sequence)
        else:
            self._cache.give_back(lane.sequence)
        lane.sequence = None

    def leave_prompt(self, lane: PromptLane) -> None:
        """Compute no more of a prompt; it stays held until ``release``."""
        self._prompts.pop(lane.sequence or 0, None)
        self._lanes.pop(lane, None)

    def release(self, job: Job) -> None:
        """Take the prompt from *job*, and all that is set aside for it."""
        prompt, cache = job.prompt_lane, self._cache
        assert prompt is not None  # noqa: S101 - the job has begun
        assert prompt.sequence is not None  # noqa: S101
        self.leave_prompt(prompt)
        if job.node is not None:
            cache.end(job.node, prompt.computed if job.is_shared else None)
        if not job.is_shared:
            cache.give_back(prompt.sequence)
        cache.promised -= job.at_once * job.share + job.uncounted
        cache.promised_sequences -= job.at_once
        del self._jobs[job]

    def clear(self) -> None:
        """Forget all, and leave the cache as it is."""
        self._jobs.clear()
        self._lanes.clear()
        self._prompts.clear()
