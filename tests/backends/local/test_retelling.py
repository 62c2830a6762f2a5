"""The retelling."""

from hypothesis import given
from hypothesis import strategies as st

from sglrun.backends.base import Request
from sglrun.backends.local.retelling import Retelling
from sglrun.lang.prompt import Prompt
from sglrun.lang.sampling import DEFAULTS, SamplingParams

TEXT = "The harbour keeps a list of ships."


def asked(**sampling: int) -> Request:
    """Return a request for *sampling*."""
    params = SamplingParams.of(**sampling).over(DEFAULTS)
    return Request(prompt=Prompt(text="a"), sampling=params)


cuts = st.lists(st.integers(0, len(TEXT)), max_size=5).map(sorted)


@given(st.lists(st.tuples(cuts, st.integers(0, len(TEXT))), max_size=4), cuts)
def test_each_piece_is_told_once(
    broken: list[tuple[list[int], int]], last: list[int]
) -> None:
    """However often and in whatever pieces a text is begun anew, it is told once."""
    heard: list[str] = []
    telling = Retelling(asked(), heard.append)
    for ends, length in (*broken, (last, len(TEXT))):
        tell, starts = telling.anew(), [0, *(at for at in ends if at < length)]
        for start, end in zip(starts, [*starts[1:], length], strict=True):
            tell(TEXT[start:end])

    assert "".join(heard) == TEXT
    assert "" not in heard


def test_each_attempt_writes_the_same() -> None:
    """A request without a seed gets one, and another each time; its own stays."""
    one, other = (Retelling(asked(), print).request.sampling.seed for _ in range(2))

    assert None not in {one, other}
    assert one != other
    assert Retelling(asked(seed=0), print).request == asked(seed=0)
