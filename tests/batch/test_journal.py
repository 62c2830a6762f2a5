"""The journal."""

import errno
import fcntl
import os
import resource
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sglrun.batch.digests import digest
from sglrun.batch.journal import Entry, Journal, pack, unpack
from sglrun.errors import ResultsError, ResultsLockedError, RunStoppedError


def entry_of(number: int) -> Entry:
    return Entry(
        line=b'{"index": %d, "a": "x"}\n' % number,
        finished=number % 3 != 0,
        key=digest(b"%d" % number),
    )


ENTRIES = [entry_of(number) for number in range(5)]
CONTENT = b"".join(map(pack, ENTRIES))


def entries_in(path: Path) -> list[Entry]:
    journal = Journal(path)
    try:
        return [entry for _, entry in journal.scan()]
    finally:
        journal.close()


@given(st.binary().map(lambda raw: raw.replace(b"\n", b"")), st.booleans())
def test_what_is_packed_is_unpacked(inner: bytes, finished: bool) -> None:  # noqa: FBT001
    """An entry comes back as it was."""
    entry = Entry(line=b"{%b}\n" % inner, finished=finished, key=digest(inner))

    assert unpack(pack(entry)) == entry


def test_a_journal_is_readable_json() -> None:
    """Each line of a journal is a result with one member more."""
    assert pack(ENTRIES[1]).startswith(b'{"index": 1, "a": "x", "_journal": "ok ')


@pytest.mark.parametrize("at", range(len(pack(ENTRIES[0]))))
def test_a_changed_byte_is_noticed(at: int) -> None:
    """A line of which any byte was changed is none."""
    packed = bytearray(pack(ENTRIES[0]))
    packed[at] ^= 1

    assert unpack(bytes(packed)) is None


def test_a_journal_cut_anywhere_loses_nothing_whole(tmp_path: Path) -> None:
    """Cut at any byte, a journal gives its whole lines, and appending goes on."""
    path = tmp_path / "out.part"
    ends = [0]
    for entry in ENTRIES:
        ends.append(ends[-1] + len(pack(entry)))
    for size in range(len(CONTENT) + 1):
        path.write_bytes(CONTENT[:size])
        journal = Journal(path)
        found = [entry for _, entry in journal.scan()]
        whole = sum(end <= size for end in ends[1:])

        assert found == ENTRIES[:whole]
        assert journal.torn == size - ends[whole]

        journal.append([entry_of(9)])
        journal.close()

        assert entries_in(path) == [*ENTRIES[:whole], entry_of(9)]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(min_size=1, max_size=60), st.integers(0, len(ENTRIES)))
def test_foreign_bytes_cost_no_entry(
    tmp_path: Path, foreign: bytes, after: int
) -> None:
    """Bytes that are no line, anywhere between lines, take nothing with them."""
    path = tmp_path / "out.part"
    before = b"".join(map(pack, ENTRIES[:after]))
    behind = b"".join(map(pack, ENTRIES[after:]))
    path.write_bytes(before + foreign + b"\n" + behind)

    assert entries_in(path) == ENTRIES


def test_entries_are_found_by_their_place(tmp_path: Path) -> None:
    """Where an entry was appended it is read again."""
    journal = Journal(tmp_path / "out.part")
    places = [*journal.append(ENTRIES[:3]), *journal.append(ENTRIES[3:])]
    with journal.reader() as reader:
        found = [reader.at(place) for place in places]
    journal.close()

    assert found == ENTRIES


def test_one_process_at_a_time(tmp_path: Path) -> None:
    """A journal that is open cannot be opened again until it is closed."""
    journal = Journal(tmp_path / "out.part")
    with pytest.raises(ResultsLockedError, match="another run"):
        Journal(tmp_path / "out.part")
    journal.close()
    Journal(tmp_path / "out.part").close()


def test_a_journal_that_was_removed_locks_nobody(tmp_path: Path) -> None:
    """After a journal is removed another takes its place, and is left alone."""
    path = tmp_path / "out.part"
    first = Journal(path)
    first.remove()
    second = Journal(path)
    first.remove()
    second.append(ENTRIES)
    second.close()

    assert entries_in(path) == ENTRIES


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    """A journal that cannot be made is an error with the reason."""
    with pytest.raises(ResultsError, match="No such file or directory"):
        Journal(tmp_path / "absent" / "out.part")


def test_a_file_that_may_not_grow_keeps_whole_lines(tmp_path: Path) -> None:
    """A write that the system refuses halfway leaves what was whole, and says so."""
    path = tmp_path / "out.part"
    journal = Journal(path)
    journal.append(ENTRIES[:2])
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (journal.size + 20, limits[1]))
    try:
        with pytest.raises(RunStoppedError, match="File too large; what is in it is"):
            journal.append(ENTRIES[2:])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    journal.append(ENTRIES[2:])
    journal.close()

    assert path.read_bytes() == CONTENT


def test_a_disk_that_loses_writes_stops_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the disk did not take is an error at the next write."""
    journal = Journal(tmp_path / "out.part")
    journal.append(ENTRIES[:1])

    def broken(fd: int) -> None:
        raise OSError(errno.EIO, "Input/output error", fd)

    monkeypatch.setattr(os, "fdatasync", broken)
    assert journal._syncer is not None
    journal._syncer.close()

    with pytest.raises(RunStoppedError, match="Input/output error"):
        journal.append(ENTRIES[1:])
    journal.close()


def test_one_journal_takes_anothers_place(tmp_path: Path) -> None:
    """A journal is replaced as a whole, and stays locked."""
    path = tmp_path / "out.part"
    journal = Journal(path)
    other = Journal(tmp_path / "out.part.new")
    other.append(ENTRIES[:2])
    journal.replace_by(other)
    journal.append(ENTRIES[2:])
    with pytest.raises(ResultsLockedError):
        Journal(path)
    journal.close()

    assert entries_in(path) == ENTRIES
    assert [each.name for each in tmp_path.iterdir()] == ["out.part"]


def test_a_lock_of_a_removed_file_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who locks a journal just as another run removes it opens a new one."""
    path = tmp_path / "out.part"
    flock = fcntl.flock
    removed: list[Path] = []

    def removed_meanwhile(fd: int, operation: int) -> None:
        if not removed:
            removed.append(path)
            path.unlink()
        flock(fd, operation)

    monkeypatch.setattr(fcntl, "flock", removed_meanwhile)
    journal = Journal(path)
    journal.append(ENTRIES)
    journal.close()

    assert entries_in(path) == ENTRIES
