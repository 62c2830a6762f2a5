"""The timeline: every row is counted once, in the span in which it ended."""

from hypothesis import given
from hypothesis import strategies as st

from sglrun.batch.timeline import MOST_SPANS, Timeline

ENDS = st.lists(st.tuples(st.floats(0, 5000), st.booleans()), max_size=60)


@given(ENDS)
def test_rows_are_counted_where_they_ended(ends: list[tuple[float, bool]]) -> None:
    """However long the run lasts, spans stay few and hold what ended in them."""
    timeline = Timeline()
    for seconds, ok in ends:
        timeline.add(seconds, ok=ok)
    times = timeline.times

    assert len(times.ok) == len(times.failed) <= MOST_SPANS
    for good, counts in ((True, times.ok), (False, times.failed)):
        assert list(counts) == [
            sum(
                ok is good and int(seconds / times.span_s) == span
                for seconds, ok in ends
            )
            for span in range(len(counts))
        ]


def test_a_short_run_has_short_spans() -> None:
    """A run of a second is not one bar."""
    timeline = Timeline()
    timeline.add(0.9, ok=True)

    assert timeline.times.ok == (0, 0, 0, 1)
