"""The pause: until when nobody is to send anything, as the server asks."""

from sglrun.batch.notices import slow_down

_LONGEST_S = 60.0
_WORTH_SAYING_S = 5.0
_NEVER = (float("inf"), float("inf"))
_ALWAYS = (float("-inf"), float("inf"))


class Pause:
    """A wait of all; whoever calls sees to it that one thread does at a time."""

    def __init__(self) -> None:
        """Begin without one."""
        self._until = float("-inf")
        self._empty = _NEVER  # from when to when nothing is said to be left
        self._has_said = False

    def wait_s(self, now: float) -> float:
        """Return how long it lasts; 0 or less if there is none."""
        return self._until - now

    def is_long(self, now: float) -> bool:
        """Return whether it is worth telling."""
        return self.wait_s(now) > _WORTH_SAYING_S

    def ask(self, seconds: float, now: float) -> str:
        """Let all wait for *seconds*, or a minute if that is less.

        Returns:
            What a user is to be told: something once, then nothing.
        """
        pause_s = min(seconds, _LONGEST_S)
        self._until = max(self._until, now + pause_s)
        if self._has_said or pause_s < _WORTH_SAYING_S:
            return ""
        self._has_said = True
        return slow_down(pause_s, seconds)

    def used_up(self, seconds: float, now: float, began: float) -> str:
        """Let all wait as an answer says that nothing is left for *seconds*.

        That is not believed of a server that answered a request which *began* while it
        had nothing left.

        Returns:
            What a user is to be told.
        """
        since, until = self._empty
        if since <= began < until:
            self._empty = _ALWAYS
            return ""
        self._empty = (now, now + seconds)
        return self.ask(seconds, now)
