"""The steps: answers to the requests of rows that are not finished, on the disk.

A row that is run again takes the answers that it was given before, each once, and asks
only what follows them. They lie in a journal of their own, ``OUT.steps``; a row takes
them under a number, its serial, which the row's line in the other journal names as
well, so that what belongs to a finished row is known for good the moment it is
finished. Lines of finished rows are left out now and then, and at the end.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

from sglrun.backends.secrets import Secrets
from sglrun.batch.answers import Answer, Asked, Kept, kept, request_digest
from sglrun.batch.digests import digest
from sglrun.batch.journal import Entry, Journal
from sglrun.batch.rows import Row
from sglrun.batch.run_files import new_beside
from sglrun.batch.step_index import StepIndex
from sglrun.errors import SglrunError

_ROOM = 32 << 20
"""Bytes that may be written before lines of finished rows are left out."""

_AT_ONCE = 256
_WAITING, _BEGUN, _SETTLED = 0, 1, 2


class StepLog:
    """Answers on the disk; safe from any thread.

    Attributes:
        torn: bytes of no whole line that were found.
    """

    def __init__(
        self,
        path: Path,
        *,
        secrets: Secrets | None = None,
        on_note: Callable[[str], None] = lambda _: None,
        room: int = _ROOM,
    ) -> None:
        """Take the file at *path*, which is made when there is something to keep.

        Args:
            path: the file; its lock is that of the journal beside it.
            secrets: answers that hold one of these are not kept.
            on_note: told what a user should know.
            room: bytes that are written before the file is cleaned.
        """
        self._path = path
        self._secrets = secrets or Secrets()
        self._on_note = on_note
        self._room = room
        self.torn = 0
        # What rows ask: a row that has ended with its first answer asked once.
        self._asked_once = False
        self._asked_twice = False
        self._lock = threading.Lock()
        # All below is under the lock. What becomes of each serial, a byte for each:
        self._states = bytearray(1)
        self._clean_at = room
        self._is_over = False
        self._journal: Journal | None = None
        self._index = StepIndex()

    @property
    def keeps_first(self) -> bool:
        """Whether a row's first answer is written before it is known to ask more.

        Where rows ask once, that would be of no use to any row that is not cut off in
        the moment between.
        """
        return self._asked_twice or not self._asked_once

    def settle(self, serials: Iterable[int]) -> None:
        """Note that the rows of these *serials* are finished; 0 stands for no row."""
        with self._lock:
            for serial in serials:
                if serial:
                    self._mark(serial, _SETTLED)

    def load(self) -> None:
        """Find what is there for rows that are not finished; call it once, first.

        Raises:
            ResultsError: it cannot be read.
        """
        with self._lock:
            self._journal = Journal(self._path)
            self._find(self._journal)
            self.torn = self._journal.torn

    def begin(self, row: Row) -> "RowSteps":
        """Return the answers of *row*, those that it was given before among them."""
        if not len(self._index):  # as nearly always
            return RowSteps(self, row)
        with self._lock:
            serial = self._index.take(digest(row.content))
            if not serial or self._journal is None:
                return RowSteps(self, row)
            self._mark(serial, _BEGUN)
            before = self._index.read(serial, self._journal)
        return RowSteps(self, row, serial, before)

    def write(self, steps: "RowSteps", answers: Iterable[Kept]) -> None:
        """Append *answers* of a row, under its serial; it is given one if it has none.

        On return the kernel has them. Where they cannot be written no more are kept
        from then on, and a note tells: no row depends on it.
        """
        key = digest(steps.row.content)
        lines = [
            answer.line for answer in answers if not self._secrets.are_in(answer.text)
        ]
        with self._lock:
            if self._is_over or not lines:
                return
            if not steps.serial:
                steps.serial = len(self._states)
                self._mark(steps.serial, _BEGUN)
            try:
                self._append(steps.serial, key, lines)
            except (SglrunError, OSError) as exc:
                self._is_over = True
                self._on_note(f"rows that do not end will ask all again: {exc}")

    def ended(self, *, asked: int) -> None:
        """Note how often a row that ended had asked."""
        if asked > 1:
            self._asked_twice = True
        elif asked == 1:
            self._asked_once = True

    def finish(self) -> None:
        """Keep what belongs to rows that failed in this run, and nothing else."""
        with self._lock:
            self._is_over = True
            try:
                if _BEGUN in self._states and self._journal is not None:
                    self._clean(self._journal, keep={_BEGUN})
                else:
                    self._remove()
            except (
                SglrunError,
                OSError,
            ):  # what is left would be taken for another row's
                self._remove()
        self.close()

    def discard(self) -> None:
        """Remove all answers."""
        with self._lock:
            self._remove()

    def close(self) -> None:
        """Let go of the file, and remove it if it is empty; safe to call twice."""
        with self._lock:
            self._is_over = True
            if self._journal is not None:
                if self._journal.size == 0:
                    self._journal.remove()
                self._journal.close()
                self._journal = None

    def _remove(self) -> None:
        self._index = StepIndex()
        if self._journal is not None:
            self._journal.remove()
            self._journal = None
        self._path.unlink(missing_ok=True)

    def _mark(self, serial: int, state: int) -> None:
        missing = serial + 1 - len(self._states)
        if missing > 0:
            self._states.extend(bytes(missing))
        self._states[serial] = state

    def _append(self, serial: int, key: bytes, lines: Iterable[bytes]) -> None:
        if self._journal is None:
            self._journal = Journal(self._path)
        journal = self._journal
        journal.append(
            [Entry(line=line, finished=False, key=key, serial=serial) for line in lines]
        )
        if journal.size > self._clean_at:
            self._clean(journal, keep={_WAITING, _BEGUN})
            self._find(journal)
            self._clean_at = 2 * journal.size + self._room

    def _clean(self, journal: Journal, *, keep: set[int]) -> None:
        """Leave only the lines of rows whose state is one of *keep*."""
        path = new_beside(self._path)
        with ExitStack() as stack:
            stack.callback(path.unlink, missing_ok=True)
            new = Journal(path)
            stack.callback(new.close)
            new.truncate(0)
            kept_lines = (
                entry
                for _, entry in journal.scan()
                if self._states[entry.serial] in keep
            )
            while some := tuple(islice(kept_lines, _AT_ONCE)):
                new.append(some)
            journal.replace_by(new)

    def _find(self, journal: Journal) -> None:
        """Find the lines of rows that no run has finished and this has not begun."""
        self._index = StepIndex()
        for place, entry in journal.scan():
            if entry.serial >= len(self._states):
                self._mark(entry.serial, _WAITING)
            if self._states[entry.serial] == _WAITING:
                self._index.add(place, entry)


class RowSteps:
    """The answers of one row, old and new; its forks ask from threads of their own.

    Attributes:
        row: the row.
        serial: the number under which its answers lie on the disk; 0 if none do.
    """

    def __init__(
        self,
        log: StepLog,
        row: Row,
        serial: int = 0,
        before: Iterable[tuple[bytes, Answer]] = (),
    ) -> None:
        """Begin with the answers that it was given *before*."""
        self.row = row
        self.serial = serial
        self._log = log
        self._lock = threading.Lock()
        # Under the lock.
        self._before: dict[bytes, deque[Answer]] = {}
        for request, answer in before:
            self._before.setdefault(request, deque()).append(answer)
        self._held: list[tuple[Asked, Answer]] = []
        self._asked = 0
        self._taken = 0

    @property
    def asks_nothing(self) -> bool:
        """Whether the row so far got answers, and none of them new."""
        return self._taken > 0 and self._asked == 0

    def take(self, request: Asked) -> Answer | None:
        """Return the answer that *request* was given before, each once.

        If there is none the request is about to be sent.
        """
        key = request_digest(request) if self._before else b""
        with self._lock:
            if answers := self._before.get(key):
                self._taken += 1
                return answers.popleft()
            self._asked += 1
            held, self._held = self._held, []
        self._write(held)
        return None

    def add(self, request: Asked, answer: Answer) -> None:
        """Keep a new *answer*."""
        with self._lock:
            if self._asked == 1 and not (self._taken or self._log.keeps_first):
                self._held.append((request, answer))
                return
        self._write([(request, answer)])

    def forget(self) -> None:
        """Begin anew, without the answers; nobody must ask meanwhile."""
        self._log.settle([self.serial])
        self.serial = self._asked = self._taken = 0
        self._before.clear()

    def end(self, *, ok: bool) -> None:
        """End the row; nobody asks any more."""
        if not ok:
            self._write(self._held)
        self._held = []
        if not self._taken:
            self._log.ended(asked=self._asked)

    def _write(self, answers: Iterable[tuple[Asked, Answer]]) -> None:
        made = [kept(request_digest(request), answer) for request, answer in answers]
        if some := [each for each in made if each is not None]:
            self._log.write(self, some)
