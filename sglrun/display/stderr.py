"""A quiet stream: stderr that may be closed, full or gone without anyone noticing."""

import io
import threading
from collections.abc import Callable
from typing import TextIO


def _never() -> bool:
    return False


class QuietStream(io.TextIOBase, TextIO):
    """Text to *stream*; what cannot be written is dropped. Safe from any thread."""

    def __init__(
        self,
        stream: TextIO | None,
        *,
        is_muted: Callable[[], bool] = _never,
        redacted: Callable[[str], str] = str,
    ) -> None:
        """Write to *stream*; ``None`` is a stream that was closed from the start.

        Args:
            stream: what is written to.
            is_muted: asked for each text whether it is dropped, unseen.
            redacted: takes out of each text what nobody may see.
        """
        self._stream = stream
        self._is_muted = is_muted
        self._redacted = redacted
        self._lock = threading.RLock()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The encoding of the stream."""
        return getattr(self._stream, "encoding", None) or "utf-8"

    def write(self, text: str) -> int:
        """Write *text* if it can be written; nothing is raised."""
        if self._is_muted():
            return 0
        if self._stream is not None:
            try:
                with self._lock:
                    self._stream.write(self._redacted(text))
            except (OSError, ValueError):
                self._stream = None
        return len(text)

    def flush(self) -> None:
        """Flush if it can be done; nothing is raised."""
        if self._stream is not None:
            try:
                with self._lock:
                    self._stream.flush()
            except (OSError, ValueError):
                self._stream = None

    def fileno(self) -> int:
        """Return the descriptor.

        Raises:
            io.UnsupportedOperation: there is none.
        """
        if self._stream is None:
            raise io.UnsupportedOperation("fileno")
        return self._stream.fileno()

    def isatty(self) -> bool:
        """Return whether this is a terminal."""
        try:
            return self._stream is not None and self._stream.isatty()
        except ValueError:
            return False

    def writable(self) -> bool:
        """Return that it may be written to."""
        return True
