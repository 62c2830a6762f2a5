"""A quiet stream: stderr that may be closed, full or gone without anyone noticing."""

import codecs
import io
import threading
from collections.abc import Callable
from typing import Any, BinaryIO, TextIO, cast


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
        self._buffer = _Bytes(self)

    @property
    def buffer(self) -> BinaryIO:
        """What takes bytes, and shows them as the text that they are."""
        return cast("BinaryIO", self._buffer)

    def detach(self) -> BinaryIO:
        """Return what takes bytes; text can be written on."""
        return self.buffer

    def reconfigure(self, **_settings: object) -> None:
        """Change nothing: any text can be written as it is."""

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


class _Bytes(io.BufferedIOBase):
    """Bytes to a quiet stream, as text; it stays open, whoever closes it."""

    def __init__(self, stream: QuietStream) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        # Under the lock: a character may come in two writes.
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")

    def write(self, data: Any) -> int:
        with memoryview(data) as view:
            self._decode(view.tobytes())
            return view.nbytes

    def flush(self) -> None:
        self._decode(b"", final=True)
        self._stream.flush()

    def close(self) -> None:
        self.flush()

    def fileno(self) -> int:
        return self._stream.fileno()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def writable(self) -> bool:
        return True

    def _decode(self, data: bytes, *, final: bool = False) -> None:
        with self._lock:
            text = self._decoder.decode(data, final)
        if text:
            self._stream.write(text)
