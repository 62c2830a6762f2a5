"""States of cells that hold nothing."""

import struct
from collections.abc import Sequence

import numpy as np
import pytest

from sglrun.backends.local.empty_cells import EmptyCells
from sglrun.errors import ModelError

SEQUENCE = 253


def cache(
    positions: Sequence[int], *, fill: int, transposed: bool = True, place: bytes = b""
) -> bytes:
    """Return the state of a cache of two layers, as the library writes it."""
    count = len(positions)
    cells = b"".join(
        struct.pack("<iI", each, 1) + place + struct.pack("<i", SEQUENCE)
        for each in positions
    )
    key = struct.pack("<iQ", 1, 6) + bytes([fill]) * (6 * count)
    value = struct.pack("<iQ", 1, 4) + bytes([fill]) * (4 * count)
    if transposed:
        value = struct.pack("<iII", 1, 2, 5) + bytes([fill]) * (10 * count)
    tensors = struct.pack("<IIII", transposed, 2, 0, 0)
    return struct.pack("<II", 1, count) + cells + tensors + 2 * key + 2 * value


def state(*caches: bytes) -> "np.ndarray[tuple[int], np.dtype[np.uint8]]":
    """Return the state of a sequence."""
    data = struct.pack("<II", 0x1234, SEQUENCE) + b"".join(caches)
    return np.frombuffer(data, np.uint8)


@pytest.mark.parametrize("caches", [1, 2])
@pytest.mark.parametrize("transposed", [True, False])
@pytest.mark.parametrize("place", [b"", struct.pack("<iii", 0, 0, 77)])
def test_a_state_has_the_form_of_the_sample(
    caches: int,
    transposed: bool,  # noqa: FBT001 - a case
    place: bytes,
) -> None:
    """Of as many cells as are wanted, at their positions, and all zero."""
    one = cache([0], fill=9, transposed=transposed, place=place)
    three = cache([4, 7, 8], fill=0, transposed=transposed, place=place)
    empty = EmptyCells(state(*[one] * caches), SEQUENCE)

    assert np.array_equal(empty.state([4, 7, 8]), state(*[three] * caches))


def test_keys_alone_are_a_form_too() -> None:
    """Some models keep no values."""
    keys = 2 * (struct.pack("<iQ", 1, 6) + bytes(6))
    tensors = struct.pack("<IIII", 1, 2, 0, 0)
    cells = struct.pack("<II", 1, 1) + struct.pack("<iIi", 0, 1, SEQUENCE)
    sample = state(cells + tensors + keys)

    assert np.array_equal(EmptyCells(sample, SEQUENCE).state([0]), sample)


@pytest.mark.parametrize(
    "sample",
    [
        state(cache([0, 1], fill=0)),
        state(cache([0], fill=0)[:-3]),
        state(cache([0], fill=0), b"more"),
        state(cache([0], fill=0).replace(struct.pack("<i", SEQUENCE), b"\1\1\1\1")),
    ],
)
def test_another_form_is_refused(
    sample: "np.ndarray[tuple[int], np.dtype[np.uint8]]",
) -> None:
    """By name, rather than to fill cells with what nobody knows."""
    with pytest.raises(ModelError, match="in a form that cannot be shared"):
        EmptyCells(sample, SEQUENCE)
