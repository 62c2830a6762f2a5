"""The tried backend: a backend outside a batch, whose requests are sent again."""

from sglrun.backends.base import Backend
from sglrun.batch.limited import LimitedBackend
from sglrun.batch.limits import Limits, RetryPolicy
from sglrun.batch.meter import Meter
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
    ) -> None:
        """Stand before *backend*.

        Args:
            backend: what answers; closed with this one.
            max_in_flight: requests under way at most.
            retries: further tries of a request.
            meter: counts what is asked.
            approximate: do what the backend cannot do exactly as nearly as it can.
        """
        limits = _LastingLimits(
            max_in_flight=max_in_flight, policy=RetryPolicy(retries=retries)
        )
        super().__init__(backend, limits, meter or Meter(), approximate=approximate)

    def close(self) -> None:
        """Close the backend behind it."""
        self._backend.close()


class _LastingLimits(Limits):
    """Limits that no error ends."""

    def fail(self, error: SglrunError) -> None:
        """Go on after *error*."""
