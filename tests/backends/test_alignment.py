"""The alignment of options with their prompt."""

import pytest

from sglrun.backends.alignment import common_prefix, own_start
from sglrun.errors import BadRequestError


@pytest.mark.parametrize(
    ("left", "right", "length"),
    [
        ([1, 2, 3], [1, 2, 3, 4], 3),
        ([1, 2, 3], [1, 2], 2),
        ([1, 2, 3], [1, 5, 3], 1),
        ([], [1], 0),
    ],
)
def test_the_common_beginning_is_counted(
    left: list[int], right: list[int], length: int
) -> None:
    """It ends where the tokens part, or where either ends."""
    assert common_prefix(left, right) == length
    assert common_prefix(right, left) == length


@pytest.mark.parametrize("whole", [[1, 2], [1]])
def test_an_option_without_tokens_of_its_own_is_refused(whole: list[int]) -> None:
    """It has no probability, and the error names it."""
    assert own_start([1, 2], [1, 3, 4], "x") == 1
    with pytest.raises(BadRequestError, match="option 'x'"):
        own_start([1, 2], whole, "x")
