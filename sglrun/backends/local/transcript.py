"""The transcript: the text of one generation as its tokens come."""

import codecs
import re
from collections.abc import Iterable


class Transcript:
    """Text in whole characters, cut at the first place where it is to stop.

    Attributes:
        text: what has come, without the stop string once it has.
        matched: the stop string or pattern that ended it.
    """

    def __init__(
        self, stop: Iterable[str] = (), patterns: Iterable[re.Pattern[str]] = ()
    ) -> None:
        """Stop before the first of *stop*, or where one of *patterns* matches."""
        self._stop = tuple(string for string in stop if string)
        self._patterns = tuple(patterns)
        self._longest = max(map(len, self._stop), default=0)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._passed = 0
        self.text = ""
        self.matched: str | None = None

    def add(self, data: bytes) -> bool:
        """Append the bytes of a token; return whether the text is to stop.

        A character whose last byte is missing still waits for it, and is dropped when
        nothing more comes.
        """
        before = len(self.text)
        self.text += self._decoder.decode(data)
        ends = [
            (at, stop)
            for stop in self._stop
            if (at := self.text.find(stop, max(0, before - len(stop) + 1))) >= 0
        ]
        ends += [
            (found.start(), pattern.pattern)
            for pattern in self._patterns
            if (found := pattern.search(self.text))
        ]
        if not ends:
            return False
        at, self.matched = min(ends)
        self.text = self.text[:at]
        return True

    def take(self, *, complete: bool) -> str:
        """Return what has not been taken yet and can no longer be cut.

        What could begin a stop string is held back until more comes or the text is
        *complete*; with patterns, everything is.
        """
        if complete:
            end = len(self.text)
        elif self._patterns:
            end = self._passed
        else:
            end = len(self.text) - self._held_back()
        piece = self.text[self._passed : end]
        self._passed = max(self._passed, end)
        return piece

    def _held_back(self) -> int:
        for length in range(min(self._longest - 1, len(self.text)), 0, -1):
            tail = self.text[-length:]
            if any(stop.startswith(tail) for stop in self._stop):
                return length
        return 0
