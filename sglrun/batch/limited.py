"""The limited backend: a backend as one row sees it, with tries, limits and counts."""

from collections.abc import Callable
from typing import TypeVar, cast

from sglrun.backends.base import (
    Backend,
    Completion,
    OnText,
    Request,
    Selection,
    SelectRequest,
    Usage,
)
from sglrun.backends.passing import PassingBackend
from sglrun.batch.allowance import Allowance
from sglrun.batch.answers import Asked
from sglrun.batch.limits import DeadlineError, Limits
from sglrun.batch.meter import Meter
from sglrun.batch.nearest import WRITTEN, check_nearest, nearest, nearest_choice
from sglrun.batch.needs import ONE_REQUEST, Need, NeedCounter
from sglrun.batch.retries import Retries
from sglrun.batch.steps import RowSteps
from sglrun.errors import BackendError, BackendTimeoutError
from sglrun.lang.prompt import Prompt

Answer = TypeVar("Answer", Completion, Selection)
Given = TypeVar("Given")

_FIRST_5XX = 500


class LimitedBackend(PassingBackend):
    """Sends what one row asks to the backend of the run.

    A request that may succeed later is sent again. What no row can survive is told to
    the limits, so that nobody asks any more.
    """

    def __init__(
        self,
        backend: Backend,
        limits: Limits,
        meter: Meter,
        *,
        needs: NeedCounter | None = None,
        timeout_s: float | None = None,
        approximate: bool = False,
        steps: RowSteps | None = None,
    ) -> None:
        """Stand before *backend*.

        Args:
            backend: what answers.
            limits: what all requests of the run share.
            meter: counts what this row asks.
            needs: tells what requests may take, for limits that count it.
            timeout_s: from now on, when the row may ask no more.
            approximate: do what the backend cannot do exactly as nearly as it can.
            steps: what the row was answered in an earlier run, and is in this.
        """
        super().__init__(backend)
        self._limits = limits
        self._meter = meter
        self._needs = needs
        self._timeout_s = timeout_s
        self._approximate = approximate
        self._steps = steps
        self._deadline = None if timeout_s is None else limits.clock() + timeout_s

    def generate(self, request: Request, on_text: OnText | None = None) -> Completion:
        """Return the completion of *request*; waits, and tries again.

        Raises:
            BackendError: no usable answer came.
        """
        if not self._approximate:
            return self._generate(request, on_text)
        near = nearest(self.capabilities, request)
        answer = self._generate(near.request, on_text)
        self._meter.approximated(*near.said)
        check_nearest(request, near.request, answer)
        return answer

    def _generate(self, request: Request, on_text: OnText | None) -> Completion:
        answer = self._ask(request, lambda: self._backend.generate(request, on_text))
        if self._needs is not None:
            self._needs.learn(request.prompt, answer.usage)
        return answer

    def select(self, request: SelectRequest) -> Selection:
        """Return the scores of the options of *request*; waits, and tries again.

        Raises:
            BackendError: no usable answer came, or it cannot be done.
        """
        said = ""
        if self._approximate:
            request, said = nearest_choice(self.capabilities, request)
        answer = self._ask(request, lambda: self._backend.select(request))
        if not answer.scores:
            self._meter.approximated(said or WRITTEN)
        return answer

    def cache_prefix(self, prompt: Prompt, *, only_scored: bool = False) -> Usage:
        """Have the model read *prompt* once; waits for its turn, and tries once.

        Raises:
            BackendError: it could not.
        """
        need = ONE_REQUEST if self._needs is None else self._needs.of_prefix(prompt)
        number = self._limits.next_number()

        def read() -> tuple[Usage, Usage]:
            usage = self._backend.cache_prefix(prompt, only_scored=only_scored)
            return usage, usage

        try:
            return self._try(read, need, number)
        except _ServerDownError as exc:
            raise exc.error from exc

    def _ask(self, asked: Asked, send: Callable[[], Answer]) -> Answer:
        """Return what the row was answered before; send only what is new."""
        if self._steps is None:
            return self._sent(send, self._need(asked))
        before = self._steps.take(asked)
        if before is not None:
            self._meter.replay(before.usage)
            return cast("Answer", before)
        answer = self._sent(send, self._need(asked))
        self._steps.add(asked, answer)
        return answer

    def _need(self, asked: Asked) -> Need:
        if self._needs is None:
            return ONE_REQUEST
        if isinstance(asked, Request):
            return self._needs.of_request(asked)
        return self._needs.of_select(asked)

    def _sent(self, send: Callable[[], Answer], need: Need) -> Answer:
        limits = self._limits
        retries = Retries(limits.policy, limits.chance)
        number, began, attempts = limits.next_number(), limits.clock(), 0

        def counted() -> tuple[Answer, Usage]:
            nonlocal attempts
            attempts += 1
            self._meter.tried(attempts)
            answer = send()
            return answer, answer.usage

        while True:
            try:
                return self._try(counted, need, number)
            except _ServerDownError:
                continue  # the next try waits until the server is back
            except DeadlineError as exc:
                raise BackendTimeoutError(
                    f"the row is not done after {self._timeout_s:g} s"
                ) from exc
            except BackendError as exc:
                if not self._again(retries, exc, began):
                    raise

    def _try(
        self, send: Callable[[], tuple[Given, Usage]], need: Need, number: int
    ) -> Given:
        with self._limits.slot(self._deadline, number=number, need=need) as slot:
            try:
                answer, usage = send()
            except BackendError as exc:
                doubt = self._limits.is_in_doubt(slot, exc)
                if self._limits.failed(slot, exc, alive=doubt and self._is_alive()):
                    raise _ServerDownError(exc) from exc
                raise
            self._limits.answered(slot, usage, self._backend.pause_s())
        self._meter.add(usage)
        return answer

    def _is_alive(self) -> bool:
        """Return whether the server answers anything at all; waits."""
        try:
            self._backend.get_server_info()
        except BackendError as exc:
            return exc.http_status is not None and exc.http_status < _FIRST_5XX
        return True

    def _again(self, retries: Retries, error: BackendError, began: float) -> bool:
        """Wait after *error*; return whether the request is to be sent again."""
        wait_s = retries.wait_s(error)
        if wait_s is not None:
            try:
                return self._limits.sleep(wait_s, self._deadline)
            except DeadlineError:
                return False
        if error.retryable:
            self._limits.gave_up(began, error)
        if error.fatal:
            self._limits.fail(error)
        return False


def need_counter(backend: Backend, allowance: Allowance) -> NeedCounter | None:
    """Return what tells the needs of requests, where *allowance* counts them."""
    if not allowance.counts:
        return None
    return NeedCounter(backend, tokens=allowance.counts_tokens)


class _ServerDownError(Exception):
    """The request failed as the server is down; that is no try of it."""

    def __init__(self, error: BackendError) -> None:
        super().__init__(str(error))
        self.error = error
