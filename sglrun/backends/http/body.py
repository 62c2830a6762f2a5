"""The body of an HTTP answer: its bytes as they come, within a size and a time."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata

import urllib3
from urllib3.connection import HTTPConnection

from sglrun.errors import BackendTimeoutError, ConfigError, ResponseError

_CHUNK_BYTES = 65536

# It comes with requests, which is content with older ones too; those cannot return
# what has come so far, and a body that drips would not end in time.
if not hasattr(getattr(urllib3, "BaseHTTPResponse", None), "read1"):
    raise ConfigError(
        f"urllib3 {metadata.version('urllib3')} is too old to ask servers with: "
        "pip install 'urllib3>=2.2'"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """What is still to be read, and the limits it must keep.

    Attributes:
        raw: where the bytes come from.
        asked: what was asked, for errors.
        deadline: when it must be complete, by the monotonic clock.
        idle_s: longest wait for the next bytes.
        size_limit: most bytes.
    """

    raw: urllib3.BaseHTTPResponse
    asked: str
    deadline: float
    idle_s: float
    size_limit: int

    def chunks(self) -> Iterator[bytes]:
        """Yield the bytes as they come.

        Raises:
            BackendTimeoutError: it is not complete in time, however steadily it drips.
            ResponseError: it is larger than allowed.
            urllib3.exceptions.HTTPError: the connection broke.
        """
        received = 0
        self._limit_wait(received)
        while chunk := self.raw.read1(_CHUNK_BYTES, decode_content=True):
            received += len(chunk)
            if received > self.size_limit:
                raise ResponseError(
                    f"{self.asked} answered more than {self.size_limit} bytes"
                )
            yield chunk
            self._limit_wait(received)

    def whole(self) -> bytes:
        """Return all of it; waits and raises as ``chunks``."""
        return b"".join(self.chunks())

    def _limit_wait(self, received: int) -> None:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise BackendTimeoutError(
                f"{self.asked} was not answered in time; {received} bytes came "
                "(raise --timeout if answers are long)"
            )
        connection = self.raw.connection
        if isinstance(connection, HTTPConnection) and connection.sock is not None:
            connection.sock.settimeout(min(left, self.idle_s))
