"""The timeline: how many rows ended when, in a few equal spans.

Memory is bounded: when a run outlasts the spans, every two of them become one.
"""

from dataclasses import dataclass

MOST_SPANS = 128
_FIRST_SPAN_S = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """What a timeline holds.

    Attributes:
        span_s: the length of a span.
        ok: rows that gave a value, by span, from the run's beginning.
        failed: rows that gave an error, likewise; as many spans.
    """

    span_s: float = _FIRST_SPAN_S
    ok: tuple[int, ...] = ()
    failed: tuple[int, ...] = ()


class Timeline:
    """Counts rows by when they ended; one thread adds, any thread looks."""

    def __init__(self) -> None:
        """Begin without rows."""
        self._span_s = _FIRST_SPAN_S
        self._spans: list[tuple[int, int]] = []

    def add(self, seconds: float, *, ok: bool) -> None:
        """Count a row that ended *seconds* after the beginning."""
        while seconds >= self._span_s * MOST_SPANS:
            self._double()
        span = int(max(0.0, seconds) / self._span_s)
        self._spans += [(0, 0)] * (span + 1 - len(self._spans))
        good, bad = self._spans[span]
        self._spans[span] = (good + ok, bad + (not ok))

    @property
    def times(self) -> Times:
        """What was counted so far."""
        spans = tuple(self._spans)
        return Times(
            span_s=self._span_s,
            ok=tuple(good for good, _ in spans),
            failed=tuple(bad for _, bad in spans),
        )

    def _double(self) -> None:
        """Let a span be as long as two."""
        self._span_s *= 2
        pairs = [*self._spans, (0, 0)]
        self._spans = [
            (one[0] + other[0], one[1] + other[1])
            for one, other in zip(pairs[::2], pairs[1::2], strict=False)
        ]
