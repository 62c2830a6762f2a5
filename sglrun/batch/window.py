"""The window: how many requests are under way at once, and how many may be."""


class Window:
    """Halves when the server asks to slow down, and grows back with answers.

    Whoever calls sees to it that one thread does at a time.

    Attributes:
        in_flight: requests under way.
    """

    def __init__(self, most: int) -> None:
        """Begin with nothing under way, and let *most* at once."""
        if most < 1:
            raise ValueError(f"max_in_flight must be at least 1, not {most}")
        self.in_flight = 0
        self._most = most
        self._allowed = float(most)
        self._cut_at = float("-inf")

    @property
    def allowed(self) -> int:
        """Requests that may be under way now."""
        return int(self._allowed)

    @property
    def is_full(self) -> bool:
        """Whether no other request may begin."""
        return self.in_flight >= self.allowed

    def grow(self) -> None:
        """Let a little more through."""
        if self._allowed < self._most:
            self._allowed = min(self._allowed + 1 / self._allowed, float(self._most))

    def cut(self, began: float, now: float) -> None:
        """Let half as much through; not for a request that *began* before the last."""
        if began > self._cut_at:
            self._allowed = max(1.0, self._allowed / 2)
            self._cut_at = now
