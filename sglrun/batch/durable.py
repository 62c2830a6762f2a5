"""Durable output: results in a file that is complete or absent, and can be resumed.

While a run lasts, results are appended to a journal, ``OUT.part``; a manifest,
``OUT.run.json``, says what they are made of. At the end they are put in the order of
the input and appear as ``OUT`` at once. A journal that is not empty is what counts; a
complete ``OUT`` counts where there is none.
"""

import errno
import hashlib
import threading
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import islice
from pathlib import Path

from sglrun.batch.digests import NO_DIGEST, SIZE, DigestIndex, digest
from sglrun.batch.durable_options import DurableOptions
from sglrun.batch.journal import Entry, Journal, sync_folder
from sglrun.batch.manifest import (
    Manifest,
    now,
    of_same_run,
    read_manifest,
    write_manifest,
)
from sglrun.batch.ordering import entries_of, mark_of, write_ordered
from sglrun.batch.output import Output, Render
from sglrun.batch.results import RowResult
from sglrun.batch.rows import Row
from sglrun.batch.run_files import RunFiles
from sglrun.batch.steps import StepLog
from sglrun.batch.summary import RunSummary
from sglrun.errors import ResultsError, ResultsLockedError, RunStoppedError

_NO_ENTRY = -1
_BUFFER_SIZE = 1 << 20
_AT_ONCE = 256
_FULL = {errno.ENOSPC, errno.EDQUOT}


class DurableOutput(Output):
    """Results that an interrupted run does not lose.

    One thread asks for the remaining rows and another appends.

    Attributes:
        path: where the complete results will be.
        complete: the results were complete before this run, and are as they were.
    """

    def __init__(self, path: str, render: Render, options: DurableOptions) -> None:
        """Open the results at *path* for a run, and read what is finished.

        Raises:
            ResultsLockedError: another run is writing them.
            ResultsError: they belong to another run or cannot be written.
            RunStoppedError: the disk is full.
        """
        self._files = RunFiles.of(path)
        self.path = self._files.results
        self.resumed = 0
        self.complete = False
        self._options = options
        self._render = render
        self._started = now()
        self._files.check(options.input_identity)
        self._lock = threading.Lock()
        # Under the lock: finished entries by digest, the place of each entry in the
        # journal, and of each row its entry and what its digest begins with.
        self._index = DigestIndex()
        self._finished = 0  # entries that rows may take
        self._places = array("Q")
        self._entries = array("q")
        self._marks = array("I")
        self._frozen: Manifest | None = None  # complete results, not in a journal yet
        self._kept = StepLog(
            self._files.steps, secrets=options.secrets, on_note=options.on_note
        )
        self.steps = self._kept if options.replay else None
        self._journal = self._open_journal()
        try:
            self._files.remove_new()
            self._begin()
        except BaseException:
            self.close()
            raise

    def remaining(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield those of *rows* that no run has finished.

        Raises:
            RunStoppedError: complete results cannot be opened up for more rows.
        """
        for row in rows:
            with self._lock:
                key = digest(row.content)
                entry = self._index.take(key)
                self._marks.append(mark_of(key))
                self._entries.append(_NO_ENTRY if entry is None else entry)
                if entry is not None:
                    self.resumed += 1
                    continue
                self._thaw()
            yield row

    def append(self, results: Sequence[RowResult]) -> None:
        """Write *results* to the journal, in one write.

        Raises:
            RunStoppedError: they cannot be written; what was written before is kept.
        """
        entries = [
            Entry(
                line=self._render(result),
                finished=result.ok,
                key=digest(result.row.content),
                serial=result.serial,
            )
            for result in results
        ]
        places = self._journal.append(entries)
        self._kept.settle(result.serial for result in results if result.ok)
        with self._lock:
            for result, place in zip(results, places, strict=True):
                self._entries[result.index] = len(self._places)
                self._places.append(place)

    def finish(self, summary: RunSummary) -> None:
        """Put the results in the order of the rows and let them appear.

        Raises:
            ResultsError: there is no row, and earlier runs finished some.
            RunStoppedError: a row has no result, or they cannot be written; the journal
                is kept.
        """
        with self._lock:
            if self._is_untouched():
                self.complete = True
                return
            self._note_left_out(self._finished - self.resumed)
            self._thaw()
            self._index = DigestIndex()  # no row is asked for any more
        last_run = {**summary.facts(), "resumed": self.resumed, "ended": now()}
        new = self._files.new_results
        try:
            ordered = write_ordered(
                new,
                self._journal,
                places=(
                    None if entry == _NO_ENTRY else self._places[entry]
                    for entry in self._entries
                ),
                marks=self._marks,
                layout=self._options.layout,
            )
            manifest = self._manifest(
                state="complete",
                rows=ordered.rows,
                size_bytes=ordered.size_bytes,
                sha256=ordered.sha256,
                keys=ordered.keys,
                about={**self._options.about, "last run": last_run},
            )
            self._write_manifest(manifest)
            new.rename(self.path)
            sync_folder(self.path.parent)
        except OSError as exc:
            raise self._cannot_write(self.path, exc) from exc
        finally:
            new.unlink(missing_ok=True)
        self._kept.finish()  # before the journal goes, which tells whose they are
        self._journal.remove()

    def close(self) -> None:
        """Let go of the journal, and remove it if it is empty."""
        self._kept.close()
        if self._journal.size == 0:
            self._journal.remove()
        self._journal.close()

    def _open_journal(self) -> Journal:
        try:
            return Journal(self._files.part)
        except ResultsLockedError as exc:
            holder = read_manifest(self._files.manifest)
            if holder is None or holder.state != "running":
                raise
            raise ResultsLockedError(
                f"{exc} (process {holder.pid}, since {holder.started})"
            ) from exc

    def _begin(self) -> None:
        """Find out what is finished.

        Raises:
            ResultsError: what is there belongs to another run.
        """
        before = read_manifest(self._files.manifest)
        if self._options.overwrite:
            self._journal.truncate(0)
            self._kept.discard()
        elif self._journal.size:
            self._check_identity(before, self._files.part)
            self._read_journal()
        elif self._files.results_size:
            manifest = self._check_identity(before, self.path)
            if manifest.state == "complete":
                self._read_complete(manifest)
                self._read_steps()
                return
        elif self._files.steps_size and before is not None:
            self._check_identity(before, self._files.steps)
        else:  # answers of a run that nobody knows
            self._kept.discard()
        self._read_steps()
        self._write_running()

    def _check_identity(self, before: Manifest | None, place: Path) -> Manifest:
        manifest = of_same_run(before, self._options.identity, place)
        size = self._files.results_size
        if manifest.state == "running" and manifest.size_bytes != size:
            raise ResultsError(
                f"{str(self.path)!r} was made while this run was interrupted; move it "
                "away, or give --overwrite to begin again"
            )
        return manifest

    def _read_journal(self) -> None:
        for place, entry in self._journal.scan():
            if entry.finished:
                self._index.add(entry.key)
                self._finished += 1
                self._places.append(place)
                self._kept.settle([entry.serial])
        self._note_torn(self._files.part, self._journal.torn)

    def _read_steps(self) -> None:
        if self.steps is not None and self._files.steps_size:
            self.steps.load()
            self._note_torn(self._files.steps, self.steps.torn)

    def _note_torn(self, path: Path, torn: int) -> None:
        if torn:
            self._options.on_note(
                f"{str(path)!r} had {torn} bytes of no whole line, torn when a run was "
                "killed; they are dropped"
            )

    def _read_complete(self, manifest: Manifest) -> None:
        """Take over complete results; they stay as they are while nothing is to do."""
        with self.path.open("rb") as file:
            checksum = hashlib.file_digest(file, "sha256").hexdigest()
        if checksum != manifest.sha256:
            raise ResultsError(
                f"{str(self.path)!r} was changed since it was written; choose another "
                "name, or give --overwrite to replace it"
            )
        # From the last to the first, as the newest of equal entries is taken first.
        for row in reversed(range(manifest.rows)):
            key = manifest.keys[SIZE * row : SIZE * (row + 1)]
            self._index.add(key)
            self._finished += key != NO_DIGEST
        self._frozen = manifest

    def _note_left_out(self, number: int) -> None:
        """Tell of finished results that no row asks for."""
        if not number:
            return
        if not self._entries:
            raise ResultsError(
                f"the input has no rows, and earlier runs finished {number} for "
                f"{str(self.path)!r}: they are left as they are; mend the input, or "
                "give --overwrite to drop them"
            )
        self._options.on_note(
            f"the input has not all rows that earlier runs finished: {number} of them "
            f"left out of {str(self.path)!r}"
        )

    def _is_untouched(self) -> bool:
        """Return whether the complete results are those of exactly these rows."""
        if self._frozen is None or len(self._entries) != self._frozen.rows:
            return False
        last = self._frozen.rows - 1
        return all(entry == last - row for row, entry in enumerate(self._entries))

    def _thaw(self) -> None:
        """Put complete results into the journal, so that rows can be added."""
        manifest, self._frozen = self._frozen, None
        if manifest is None:
            return
        part_path = self._files.new_part
        try:
            with ExitStack() as stack:
                stack.callback(part_path.unlink, missing_ok=True)
                part = Journal(part_path)
                stack.callback(part.close)
                part.truncate(0)
                file = stack.enter_context(self.path.open("rb", _BUFFER_SIZE))
                entries = entries_of(file, manifest.keys)
                places = array("Q")
                while some := tuple(islice(entries, _AT_ONCE)):
                    places.extend(part.append(some))
                self._journal.replace_by(part)
            self._places.extend(reversed(places))
            self._write_running()
        except OSError as exc:
            raise self._cannot_write(part_path, exc) from exc

    def _write_running(self) -> None:
        try:
            self._write_manifest(
                self._manifest(state="running", size_bytes=self._files.results_size)
            )
        except OSError as exc:
            if exc.errno in _FULL:
                raise self._cannot_write(self._files.manifest, exc) from exc
            raise ResultsError(
                f"cannot write {str(self._files.manifest)!r}: {exc.strerror}"
            ) from exc

    def _write_manifest(self, manifest: Manifest) -> None:
        secrets = self._options.secrets
        write_manifest(self._files.manifest, manifest, secrets=secrets)

    def _manifest(self, **facts: object) -> Manifest:
        plain = Manifest(
            state="running",
            identity=self._options.identity,
            started=self._started,
            about=self._options.about,
        )
        return replace(plain, **facts)  # type: ignore[arg-type]

    def _cannot_write(self, path: Path, exc: OSError) -> RunStoppedError:
        return RunStoppedError(
            f"cannot write {str(path)!r}: {exc.strerror}; finished rows are kept in "
            f"{str(self._files.part)!r}: make room and give the same command again"
        )
