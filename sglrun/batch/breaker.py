"""The breaker: whether the server is taken for down, and who may try whether it is.

A server is down when it answered before and nothing is reached there any more, or when
several requests in a row came back with what a proxy or a dying process says. Then all
requests wait but one at a time, which tries. A connection that breaks can also be what
a request does to its server: then something else is asked of the server to tell.
"""

from collections.abc import Mapping

from sglrun.errors import (
    BackendError,
    BackendTimeoutError,
    BackendUnavailableError,
    BackendUnreachableError,
)

_ENOUGH = 3
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 10.0
_GROWTH = 2.0
# No status: the connection broke. The others are a proxy's, and an overloaded server's.
_DOWN: Mapping[int | None, str] = {
    None: "the connection breaks",
    502: "bad gateway",
    503: "unavailable",
    504: "gateway timeout",
    529: "overloaded",
}
# What a request may bring about itself.
_DOUBTFUL = frozenset({None, 502, 504})


class Breaker:
    """Opens when the server goes down; whoever calls holds the lock of the limits.

    Attributes:
        patience_s: how long a server that is down is waited for; ``None`` never opens.
        error: why it is open; ``None`` while it is closed.
        since: when the server was first found down.
        noticed: a try has failed while it was open.
    """

    def __init__(self, patience_s: float | None) -> None:
        """Begin closed; nothing is known about the server."""
        self.patience_s = patience_s
        self.error: BackendError | None = None
        self.since = 0.0
        self.noticed = False
        self._reached = False  # something was heard of the server
        self._answered = False  # it gave a usable answer
        self._failed: set[int] = set()  # requests that failed since the last answer
        self._trying: int | None = None
        self._next_try = 0.0
        self._pause_s = _FIRST_PAUSE_S

    @property
    def until(self) -> float:
        """When it is waited for no more."""
        return self.since + (self.patience_s or 0.0)

    def wait_s(self, now: float) -> float:
        """Return how long a request must wait; infinite while another one tries."""
        if self.error is None:
            return 0.0
        if self._trying is not None:
            return float("inf")
        return max(0.0, self._next_try - now)

    def begin(self, number: int) -> None:
        """Note that the request *number* is sent."""
        if self.error is not None:
            self._trying = number

    def end(self, number: int) -> None:
        """Note that the request *number* is sent no more, however it ended."""
        if self._trying == number:
            self._trying = None

    def answered(self) -> bool:
        """Note a usable answer; return whether the breaker was open and noticed."""
        self._answered = True
        return self._close()

    def is_in_doubt(self, error: BackendError, number: int) -> bool:
        """Return whether *error* opens it unless the server is found to be alive."""
        gone = isinstance(error, BackendUnreachableError)
        if self.patience_s is None or gone:
            return False
        if not _speaks_of_server(error) or error.http_status not in _DOUBTFUL:
            return False
        others = self._failed - {number}
        enough = self._answered and len(others) + 1 >= _ENOUGH
        return enough if self.error is None else self._trying == number

    def failed(
        self, error: BackendError, number: int, now: float, *, alive: bool = False
    ) -> bool:
        """Note that the request *number* failed.

        Args:
            error: how it failed.
            number: tells requests apart.
            now: the time.
            alive: the server has answered something else meanwhile.

        Returns:
            Whether that says only that the server is down, nothing of the request.
        """
        if alive:
            self._close()
            return False
        if not _speaks_of_server(error):
            if error.http_status is not None:
                self._close()
            self._reached = self._reached or error.http_status is not None
            return False
        self._failed.add(number)
        gone = isinstance(error, BackendUnreachableError)
        if self.error is None:
            believed = self._is_believed(gone=gone)
            self._reached = self._reached or not gone
            if not believed:
                return False
            self.since, self._pause_s = now, _FIRST_PAUSE_S
            self._next_try = now + self._pause_s
        elif self._trying == number:
            self.noticed = True
            self._pause_s = min(self._pause_s * _GROWTH, _LONGEST_PAUSE_S)
            self._next_try = min(now + self._pause_s, max(now, self.until))
        self.error = error
        return True

    def _is_believed(self, *, gone: bool) -> bool:
        if self.patience_s is None:
            return False
        if gone:
            return self._reached or self._answered
        return self._answered and len(self._failed) >= _ENOUGH

    def _close(self) -> bool:
        was_noticed, self.noticed = self.noticed, False
        self._reached, self.error = True, None
        self._failed.clear()
        return was_noticed


def _speaks_of_server(error: BackendError) -> bool:
    if isinstance(error, BackendTimeoutError) or not error.retryable:
        return False
    return isinstance(error, BackendUnavailableError) and error.http_status in _DOWN
