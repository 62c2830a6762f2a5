"""The step index: where the answers of rows lie that no run has finished.

It holds 50 bytes for each row, and 12 for each of its answers; these stay on the disk
until the row is run again.
"""

from array import array

from sglrun.batch.answers import Answer, parse_kept
from sglrun.batch.digests import DigestIndex
from sglrun.batch.journal import Entry, Journal

_NONE = 0xFFFFFFFF


class StepIndex:
    """Lines of a journal of answers; one thread at a time."""

    def __init__(self) -> None:
        """Begin empty."""
        self._rows = DigestIndex()  # by their content
        self._serials = array("I")  # of each of these rows
        self._last = array("I")  # the last line of each serial
        self._places = array("Q")  # of each line
        self._earlier = array("I")  # the line before each, of the same serial

    def __len__(self) -> int:
        """Return the number of rows added, those taken included."""
        return len(self._rows)

    def add(self, place: int, entry: Entry) -> None:
        """Add the *entry* that begins at *place*."""
        serial = entry.serial
        if serial >= len(self._last):
            missing = serial + 1 - len(self._last)
            self._last.extend(array("I", [_NONE]) * missing)
        if self._last[serial] == _NONE:
            self._rows.add(entry.key)
            self._serials.append(serial)
        self._earlier.append(self._last[serial])
        self._last[serial] = len(self._places)
        self._places.append(place)

    def take(self, key: bytes) -> int:
        """Return the serial of a row of the digest *key*, each once; 0 if none is left.

        The newest comes first.
        """
        number = self._rows.take(key)
        return 0 if number is None else self._serials[number]

    def read(self, serial: int, journal: Journal) -> list[tuple[bytes, Answer]]:
        """Return the answers under *serial*, with what was asked, as they came."""
        places = []
        line = self._last[serial]
        while line != _NONE:
            places.append(self._places[line])
            line = self._earlier[line]
        with journal.reader() as reader:
            entries = [reader.at(place) for place in reversed(places)]
        return [
            parse_kept(entry.line)
            for entry in entries
            if entry is not None and entry.serial == serial
        ]
