"""The tried backend: a backend outside a batch, whose requests are sent again."""

from sglrun.backends.base import Backend
from sglrun.batch.allowance import Allowance
from sglrun.batch.limited import LimitedBackend, need_counter
from sglrun.batch.limits import Limits
from sglrun.batch.meter import Meter
from sglrun.batch.retries import RetryPolicy
from sglrun.errors import SglrunError


class TriedBackend(LimitedBackend):
    """Sends what a script asks to its backend; what may succeed later is tried again.

    An error that no row of a batch could survive stops nothing here: the script decides
    what it does next.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        max_in_flight: int,
        retries: int,
        meter: Meter | None = None,
        approximate: bool = False,
        requests_per_minute: int | None = None,
        tokens_per_minute: int | None = None,
    ) -> None:
        """Stand before *backend*.

        Args:
            backend: what answers; closed with this one.
            max_in_flight: requests under way at most.
            retries: further tries of a request.
            meter: counts what is asked.
            approximate: do what the backend cannot do exactly as nearly as it can.
            requests_per_minute: sent in any minute at most.
            tokens_per_minute: read and generated, likewise.
        """
        limits = _LastingLimits(
            max_in_flight=max_in_flight,
            policy=RetryPolicy(retries=retries),
            patience_s=None,
            allowance=Allowance(
                requests_per_minute=requests_per_minute,
                tokens_per_minute=tokens_per_minute,
            ),
        )
        super().__init__(
            backend,
            limits,
            meter or Meter(),
            needs=need_counter(backend, limits.allowance),
            approximate=approximate,
        )

    def close(self) -> None:
        """Close the backend behind it."""
        self._backend.close()


class _LastingLimits(Limits):
    """Limits that no error ends."""

    def fail(self, error: SglrunError) -> None:
        """Go on after *error*."""
