"""The engine: the one thread that computes, and the way to it."""

import queue
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import nullcontext, suppress
from functools import partial
from typing import TypeVar

from sglrun.backends.local.attention import Attention, choose_attention
from sglrun.backends.local.composition import TokenJoin
from sglrun.backends.local.context import Context
from sglrun.backends.local.context_settings import ContextSettings
from sglrun.backends.local.job import BranchJob, Job
from sglrun.backends.local.model import Model
from sglrun.backends.local.radix import Node
from sglrun.backends.local.scheduler import Scheduler
from sglrun.backends.local.tokenizer import Tokenizer
from sglrun.errors import BackendError, BackendUnavailableError, ModelError

Result = TypeVar("Result")

_Command = Callable[[], None]

# Tries to put branches together, which others may have pushed out meanwhile.
_TRIES = 4


class Engine:
    """Runs jobs over one model; every method is safe from any thread.

    Attributes:
        can_join: ``join`` works for this model.
    """

    def __init__(
        self, model: Model, tokenizer: Tokenizer, settings: ContextSettings
    ) -> None:
        """Allocate the context and start the thread.

        Raises:
            ModelError: there is no memory for the context.
        """
        self._model = model
        self._allocate = partial(Context, model, tokenizer.size, settings)
        self._context = self._allocate()
        self._scheduler = Scheduler(self._context)
        self.can_join = self._context.can_append
        self._joining = threading.Lock()
        self._refused: Attention | None = None  # there was no room for it
        self._inbox: queue.SimpleQueue[_Command | None] = queue.SimpleQueue()
        # Written under the lock: nothing is put into the inbox once it is closed.
        self._lock = threading.Lock()
        self._closed_by: BaseException | None = None
        self._thread = threading.Thread(
            target=self._work, name="sglrun-engine", daemon=True
        )
        self._thread.start()

    def run(self, job: Job) -> None:
        """Compute *job*; waits until it is done.

        Raises:
            BackendError: it cannot be done, or the engine is closed.
            BaseException: what the caller's wait was broken by; the job is given up.
        """
        self.start(job)
        self.wait(job)

    def wait(self, job: Job) -> None:
        """Wait until *job*, which was started, is done.

        Raises:
            BackendError: it cannot be done, or the engine is closed.
            BaseException: what the caller's wait was broken by; the job is given up.
        """
        try:
            job.future.result()
        except BaseException:
            job.cancelled = True
            raise

    def start(self, job: Job) -> None:
        """Hand *job* in; its future tells when it is done.

        Raises:
            BackendError: the engine is closed.
        """
        try:
            self._tell(lambda: self._scheduler.add(job))
        except BackendError:
            job.close()
            raise

    def join(self, join: TokenJoin) -> tuple[Node, int]:
        """Compute the branches of *join* and put them together; waits.

        Returns:
            What is kept of it until the job that asked for it begins, or ``let_go``;
            and how many tokens were computed for it.

        Raises:
            BackendError: there is no room for it, or the engine is closed.
        """
        for attempt in range(_TRIES):
            # Where room is short, one after the other: else each takes it from another.
            with self._joining if attempt else nullcontext():
                branches = [BranchJob(join.base + branch) for branch in join.branches]
                node = self._joined(join, branches)
            if node is not None:
                computed = (len(job.prompt) - job.cached_tokens for job in branches)
                return node, sum(computed)
        raise BackendError(
            f"no room to join branches of {len(join.whole)} tokens: run fewer rows at "
            "once, or leave out --parallel-encoding"
        )

    def _joined(self, join: TokenJoin, branches: list[BranchJob]) -> Node | None:
        try:
            for job in branches:
                job.joined = join.known
                self.start(job)
            for job in branches:
                self.wait(job)
            return self._ask(lambda: self._scheduler.join(join, branches))
        except BaseException:
            for job in branches:
                job.cancelled = True
            with suppress(BackendError):
                self._tell(lambda: self._scheduler.let_go(branches))
            raise

    def let_go(self, nodes: Iterable[Node]) -> None:
        """Keep *nodes* no longer, which ``join`` gave; waits for nothing."""
        with suppress(BackendError):
            self._tell(lambda: self._scheduler.cache.let_go(nodes))

    def forget(self) -> None:
        """Let go of every prefix that no running job needs; waits until it is done."""
        self._ask(self._clear)

    def expect(self, prefix: int, *, only_scored: bool = False) -> None:
        """Note that prompts begin with *prefix* tokens alike; waits for its turn.

        *only_scored*: as far as is known, nothing is generated after them.

        Where another way of attention is faster for such prompts, the context is made
        anew, without what the cache held: one batch after another is answered as each
        is by itself. While jobs wait or run, the way stays as it is.

        Raises:
            BackendError: the engine is closed.
        """
        self._ask(lambda: self._prepare(prefix, only_scored=only_scored))

    @property
    def cached_tokens(self) -> int:
        """Tokens that the prefix cache holds now."""
        return self._scheduler.cache.size

    def close(self) -> None:
        """Give up what is running, end the thread and free the context."""
        with self._lock:
            if self._closed_by is None:
                self._closed_by = BackendUnavailableError("the engine is closed")
            self._inbox.put(None)
        self._thread.join()
        self._context.close()

    def _clear(self) -> None:
        self._scheduler.cache.clear()  # of the scheduler that there is by then

    def _prepare(self, prefix: int, *, only_scored: bool) -> None:
        context = self._context
        # In this thread: the library tells of itself in a text that all share.
        attention = choose_attention(
            self._model.library, context.settings, prefix, only_scored=only_scored
        )
        if attention in {context.attention, self._refused}:
            return
        if not self._scheduler.is_idle:
            return
        context.close()
        try:
            self._context = self._allocate(attention=attention)
        except ModelError:  # it takes more memory
            self._refused = attention
            self._context = self._allocate()
        self._scheduler = Scheduler(self._context)

    def _ask(self, function: Callable[[], Result]) -> Result:
        """Return what *function* does in the engine's thread, between two steps."""
        answer: Future[Result] = Future()

        def call() -> None:
            try:
                answer.set_result(function())
            except Exception as exc:  # handed to who waits, and to the engine
                answer.set_exception(exc)
                raise

        self._tell(call)
        return answer.result()

    def _tell(self, command: _Command) -> None:
        with self._lock:
            if self._closed_by is not None:
                raise BackendError(
                    f"the engine does not run: {self._closed_by}"
                ) from self._closed_by
            self._inbox.put(command)

    def _work(self) -> None:
        try:
            while self._obey():
                self._scheduler.step()
            cause = self._closed_by
        except Exception as exc:  # noqa: BLE001 - handed to everyone who waits
            cause = exc
            with self._lock:
                self._closed_by = exc
        while not self._inbox.empty():
            command = self._inbox.get()
            if command is not None:
                with suppress(Exception):  # the first cause is the one to tell
                    command()
        self._scheduler.fail_all(BackendError(f"the engine stopped: {cause}"))

    def _obey(self) -> bool:
        """Take what has come in, and wait where there is nothing to do.

        Returns:
            Whether to go on.
        """
        while True:
            try:
                command = self._inbox.get(block=self._scheduler.is_idle)
            except queue.Empty:
                return True
            if command is None:
                return False
            command()
