"""Digests: which rows are finished, told by their content, in little memory."""

from array import array
from hashlib import blake2b

SIZE = 16
"""Bytes of a digest."""

NO_DIGEST = bytes(SIZE)
"""Stands where a row is not finished; no content has it."""

_NONE = 0xFFFFFFFF


def digest(content: bytes) -> bytes:
    """Return the digest of a row's *content*."""
    return blake2b(content, digest_size=SIZE).digest()


class DigestIndex:
    """Entries by digest, each taken once; about 40 bytes for each.

    A hash table in arrays: a slot holds the newest entry of a digest, and each entry
    the one before it of the same digest, so that many equal rows cost no more than
    different ones.
    """

    def __init__(self) -> None:
        """Begin empty."""
        self._digests = bytearray()
        self._earlier = array("I")
        self._slots = array("I", [_NONE]) * 64
        self._used = 0

    def __len__(self) -> int:
        """Return the number of entries added, those taken included."""
        return len(self._earlier)

    def add(self, key: bytes) -> int:
        """Add an entry of the digest *key*; return its number, counted from 0."""
        number = len(self._earlier)
        self._digests += key
        slot = self._slot(key)
        before = self._slots[slot]
        self._earlier.append(before)
        self._slots[slot] = number
        if before == _NONE:
            self._used += 1
            if 2 * self._used > len(self._slots):
                self._grow()
        return number

    def take(self, key: bytes) -> int | None:
        """Return the number of an entry of *key* that was not taken before, if any."""
        slot = self._slot(key)
        number = self._slots[slot]
        if number == _NONE or self._earlier[number] == number:
            return None
        earlier = self._earlier[number]
        if earlier != _NONE:
            self._slots[slot] = earlier
            return number
        # The slot stays in use, marked by an entry that points at itself: an empty one
        # would hide what lies behind it.
        self._earlier[number] = number
        return number

    def _key(self, number: int) -> bytes:
        return bytes(self._digests[SIZE * number : SIZE * (number + 1)])

    def _slot(self, key: bytes) -> int:
        """Return the slot that holds *key*, or the empty one where it belongs."""
        mask = len(self._slots) - 1
        slot = int.from_bytes(key[:8], "little") & mask
        while (number := self._slots[slot]) != _NONE and self._key(number) != key:
            slot = (slot + 1) & mask
        return slot

    def _grow(self) -> None:
        before = self._slots
        self._slots = array("I", [_NONE]) * (4 * len(before))
        for number in before:
            if number != _NONE:
                self._slots[self._slot(self._key(number))] = number
