"""The plan: what all rows begin with, sent once before them."""

from dataclasses import dataclass

from sglrun.backends.base import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The prefix that all rows share, and what became of it.

    Attributes:
        text: the shared prefix.
        tokens: its tokens, estimated where the backend cannot count.
        ended_by: what comes after it, in words.
        where: the author's line that brings it, as ``prog.py:12``.
        usage: what sending it cost; ``None`` if it was not sent.
    """

    text: str = ""
    tokens: int = 0
    ended_by: str = ""
    where: str | None = None
    usage: Usage | None = None
