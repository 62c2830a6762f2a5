"""The limited backend: a backend as one row sees it, with tries, limits and counts."""

from collections.abc import Callable, Mapping
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
from sglrun.batch.answers import Asked
from sglrun.batch.limits import DeadlineError, Limits, Retries
from sglrun.batch.meter import Meter
from sglrun.batch.nearest import WRITTEN, check_nearest, nearest, nearest_choice
from sglrun.batch.steps import RowSteps
from sglrun.errors import BackendError, BackendTimeoutError, RateLimitError
from sglrun.lang.prompt import Prompt

Answer = TypeVar("Answer", Completion, Selection)


class LimitedBackend(Backend):
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
        timeout_s: float | None = None,
        approximate: bool = False,
        steps: RowSteps | None = None,
    ) -> None:
        """Stand before *backend*.

        Args:
            backend: what answers.
            limits: what all requests of the run share.
            meter: counts what this row asks.
            timeout_s: from now on, when the row may ask no more.
            approximate: do what the backend cannot do exactly as nearly as it can.
            steps: what the row was answered in an earlier run, and is in this.
        """
        self.kind = backend.kind
        self.model = backend.model
        self.chat_template = backend.chat_template
        self.capabilities = backend.capabilities
        self._backend = backend
        self._limits = limits
        self._meter = meter
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
            return self._ask(request, lambda: self._backend.generate(request, on_text))
        near = nearest(self.capabilities, request)
        answer = self._ask(
            near.request, lambda: self._backend.generate(near.request, on_text)
        )
        self._meter.approximated(*near.said)
        check_nearest(request, near.request, answer)
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

    def check(self, request: Request | SelectRequest) -> None:
        """Let *request* pass if the backend could be asked for it."""
        self._backend.check(request)

    def cache_prefix(self, prompt: Prompt) -> Usage:
        """Have the model read *prompt* once."""
        return self._backend.cache_prefix(prompt)

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of *text*."""
        return self._backend.count_tokens(text)

    def flush_cache(self) -> bool:
        """Forget cached prefixes."""
        return self._backend.flush_cache()

    def get_server_info(self) -> Mapping[str, object]:
        """Return what the server tells about itself."""
        return self._backend.get_server_info()

    def _ask(self, asked: Asked, send: Callable[[], Answer]) -> Answer:
        """Return what the row was answered before; send only what is new."""
        if self._steps is None:
            return self._sent(send)
        before = self._steps.take(asked)
        if before is not None:
            self._meter.replay(before.usage)
            return cast("Answer", before)
        answer = self._sent(send)
        self._steps.add(asked, answer)
        return answer

    def _sent(self, send: Callable[[], Answer]) -> Answer:
        retries, attempts = Retries(self._limits), 0
        while True:
            attempts += 1
            try:
                answer = self._try(send, attempts)
            except DeadlineError as exc:
                raise BackendTimeoutError(
                    f"the row is not done after {self._timeout_s:g} s"
                ) from exc
            except BackendError as exc:
                if not self._again(retries, exc):
                    raise
            else:
                self._meter.add(answer.usage)
                self._limits.answered()
                return answer

    def _try(self, send: Callable[[], Answer], attempts: int) -> Answer:
        with self._limits.slot(self._deadline) as began:
            self._meter.tried(attempts)
            try:
                return send()
            except RateLimitError as exc:
                self._limits.throttled(began, exc.retry_after_s)
                raise

    def _again(self, retries: Retries, error: BackendError) -> bool:
        """Wait after *error*; return whether the request is to be sent again."""
        wait_s = retries.wait_s(error)
        if wait_s is not None:
            try:
                return self._limits.sleep(wait_s, self._deadline)
            except DeadlineError:
                return False
        if error.fatal:
            self._limits.fail(error)
        return False
