"""Durable output: what a run that was interrupted does not lose."""

import errno
import json
import os
import resource
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sglrun.batch.durable import DurableOutput
from sglrun.batch.durable_options import DurableOptions
from sglrun.batch.journal import unpack
from sglrun.batch.records import render_record
from sglrun.batch.results import ErrorInfo, Layout, RowResult
from sglrun.batch.rows import Row, read_rows
from sglrun.batch.summary import RunSummary
from sglrun.errors import (
    ResultsError,
    ResultsLockedError,
    RunStoppedError,
    SglrunError,
)

IDENTITY = {"program": "prog", "model": "m1"}


class KilledError(Exception):
    """Stands for the end of the process."""


class Job:
    """One command that can be given again; its rows are the texts in ``inputs``."""

    def __init__(self, folder: Path, layout: Layout = "record") -> None:
        self.out = folder / "out.jsonl"
        self.part = folder / "out.jsonl.part"
        self.manifest = folder / "out.jsonl.run.json"
        self.layout = layout
        self.identity = dict(IDENTITY)
        self.notes: list[str] = []
        self.failing: set[str] = set()

    def options(self, *, overwrite: bool = False) -> DurableOptions:
        """Return what the output is told."""
        return DurableOptions(
            identity=self.identity,
            layout=self.layout,
            overwrite=overwrite,
            on_note=self.notes.append,
            about={"command": "sglrun batch"},
        )

    def open(self, *, overwrite: bool = False) -> DurableOutput:
        """Open the results."""
        render = partial(render_record, layout=self.layout)
        return DurableOutput(str(self.out), render, self.options(overwrite=overwrite))

    def run(
        self,
        inputs: Sequence[str],
        *,
        die_after: int | None = None,
        overwrite: bool = False,
    ) -> list[str]:
        """Run the command; return the texts that were asked of the model.

        Args:
            inputs: a text for each row.
            die_after: the process ends after so many results.
            overwrite: begin anew.

        Raises:
            KilledError: it ended.
        """
        asked: list[str] = []
        with self.open(overwrite=overwrite) as output:
            for row in output.remaining(rows_of(inputs)):
                if len(asked) == die_after:
                    raise KilledError
                asked.append(str(row.fields["q"]))
                output.append([self.result(row)])
            output.finish(RunSummary(ok=len(asked)))
            self.complete = output.complete
        return asked

    def result(self, row: Row) -> RowResult:
        """Return what becomes of *row*."""
        text = str(row.fields["q"])
        if text in self.failing:
            return RowResult(row=row, error=ErrorInfo(type="E", message=text))
        return RowResult(row=row, output={"a": f"to {text}"})

    def answers(self) -> list[str]:
        """Return what the complete results say, checking that they are in order."""
        records = [json.loads(line) for line in self.out.read_bytes().splitlines()]
        if self.layout == "flat":
            records = [
                {**record["_sglrun"], "output": {"a": record.get("a")}}
                for record in records
            ]
        assert [record["index"] for record in records] == list(range(len(records)))
        return [
            record["output"]["a"] if record["status"] == "ok" else "failed"
            for record in records
        ]

    @property
    def files(self) -> set[str]:
        """The names of all files there are."""
        return {path.name for path in self.out.parent.iterdir()}


def rows_of(inputs: Iterable[str]) -> list[Row]:
    return [
        Row(
            index=index,
            line=index + 1,
            content=text.encode(),
            fields={"q": text},
            raw={"q": json.dumps(text)},
        )
        for index, text in enumerate(inputs)
    ]


def expected(inputs: Iterable[str]) -> list[str]:
    return [f"to {text}" for text in inputs]


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """A command with its results in an empty folder."""
    return Job(tmp_path)


@pytest.fixture
def fast_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for no disk: these tests end no computer, only processes."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(os, "fdatasync", lambda _: None)


ROWS = ("a", "b", "same", "c", "same", "same", "d")


def test_results_are_complete_or_absent(job: Job) -> None:
    """While a run lasts there is a journal; then there are results and a manifest."""
    with pytest.raises(KilledError):
        job.run(ROWS, die_after=3)

    assert job.files == {"out.jsonl.part", "out.jsonl.run.json"}
    assert job.run(ROWS) == list(ROWS[3:])
    assert job.files == {"out.jsonl", "out.jsonl.run.json"}
    assert job.answers() == expected(ROWS)


@pytest.mark.usefixtures("fast_disk")
@pytest.mark.parametrize("layout", ["record", "flat"])
def test_cut_anywhere_each_row_comes_once(tmp_path: Path, layout: Layout) -> None:
    """Whatever a crash leaves of the journal, whole rows are kept and none is twice."""
    job = Job(tmp_path, layout)
    with pytest.raises(KilledError):
        job.run(ROWS, die_after=5)
    journal, manifest = job.part.read_bytes(), job.manifest.read_bytes()
    for size in (*range(0, len(journal), 7), len(journal) - 1, len(journal)):
        job.out.unlink(missing_ok=True)
        job.part.write_bytes(journal[:size])
        job.manifest.write_bytes(manifest)
        whole = journal[:size].count(b"\n")
        asked = job.run(ROWS)

        assert len(asked) == len(ROWS) - whole
        assert job.answers() == expected(ROWS)


Damage = Callable[[bytearray], object]


def cut(count: int) -> Damage:
    return lambda data: data.__delitem__(slice(max(0, len(data) - count), None))


def grown(garbage: bytes) -> Damage:
    return lambda data: data.extend(garbage)


def flipped(place: int, bit: int) -> Damage:
    def flip(data: bytearray) -> None:
        if place < len(data):
            data[-1 - place] ^= 1 << bit

    return flip


DAMAGE = st.lists(
    st.integers(0, 900).map(cut)
    | st.binary(max_size=300).map(grown)
    | st.builds(flipped, st.integers(0, 900), st.integers(0, 7)),
    min_size=1,
    max_size=4,
)
"""What a crash may leave of a file's tail."""


@pytest.mark.usefixtures("fast_disk")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(DAMAGE, st.integers(0, 7), st.sampled_from(["record", "flat"]))
def test_whatever_is_left_each_row_comes_once(
    tmp_path: Path, damage: list[Damage], died: int, layout: Layout
) -> None:
    """Lines that are whole are kept, others are asked again, and none comes twice."""
    job = Job(tmp_path, layout)
    for name in job.files:
        (tmp_path / name).unlink()
    with pytest.raises(KilledError):
        job.run((*ROWS, "never"), die_after=died)
    left = bytearray(job.part.read_bytes() if job.part.exists() else b"")
    for change in damage:
        change(left)
    job.part.write_bytes(left)
    lines = bytes(left).split(b"\n")[:-1]
    whole = sum(unpack(line + b"\n") is not None for line in lines)
    asked = job.run(ROWS)

    assert len(asked) == len(ROWS) - whole
    assert job.answers() == expected(ROWS)
    assert job.files == {"out.jsonl", "out.jsonl.run.json"}


def test_a_torn_line_is_named(job: Job) -> None:
    """What is dropped of the journal is told, with its size."""
    with pytest.raises(KilledError):
        job.run(ROWS, die_after=3)
    with job.part.open("ab") as file:
        file.write(b'{"index": 3, "output": "o')
    job.run(ROWS)

    assert "had 25 bytes of no whole line" in job.notes[0]
    assert job.answers() == expected(ROWS)


TEXTS = st.lists(st.sampled_from("abcde"), max_size=8)


@pytest.mark.usefixtures("fast_disk")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(TEXTS, st.none() | st.integers(0, 6), st.sets(st.sampled_from("abc")))
    ),
    TEXTS,
)
def test_any_history_ends_well(
    tmp_path: Path,
    history: list[tuple[list[str], int | None, set[str]]],
    last: list[str],
) -> None:
    """After any runs over any inputs, dying or failing anywhere, a run is complete.

    No row that some run finished for the same content is asked again.
    """
    job = Job(tmp_path)
    for name in job.files:
        (tmp_path / name).unlink()
    for inputs, die_after, failing in history:
        job.failing = failing
        try:
            job.run(inputs, die_after=die_after)
        except KilledError:
            continue
        except ResultsError:  # no rows, where some were finished
            assert not inputs
            continue

        assert job.answers() == [
            "failed" if text in failing and answer == "failed" else f"to {text}"
            for text, answer in zip(inputs, job.answers(), strict=True)
        ]
    job.failing = set()
    try:
        asked = job.run(last)
    except ResultsError:
        assert not last
        return
    asked_again = job.run(last)

    assert len(asked) <= len(last)
    assert asked_again == []
    assert job.answers() == expected(last)


def test_what_a_killed_run_was_making_goes(job: Job) -> None:
    """Files that were to appear and never did are gone after the next run."""
    job.run(ROWS)
    for name in ("", ".part", ".steps", ".run.json"):
        job.out.with_name(f"out.jsonl{name}.new").write_text("half")

    assert job.run(ROWS) == []
    assert job.files == {"out.jsonl", "out.jsonl.run.json"}


def test_nothing_left_to_do_changes_nothing(job: Job) -> None:
    """A complete job that is run again asks nothing and leaves the file as it is."""
    job.run(ROWS)
    before, status = job.out.read_bytes(), job.out.stat()

    assert job.run(ROWS) == []
    assert job.complete
    assert job.out.read_bytes() == before
    assert job.out.stat().st_ino == status.st_ino
    assert job.files == {"out.jsonl", "out.jsonl.run.json"}


def test_failed_rows_run_again(job: Job) -> None:
    """Only the failed rows of a complete job are asked again, and are replaced."""
    job.failing = {"b", "d"}
    job.run(ROWS)
    before = job.answers()
    job.failing = {"d"}

    assert job.run(ROWS) == ["b", "d"]
    assert before == ["to a", "failed", *expected(ROWS[2:-1]), "failed"]
    assert job.answers() == [*expected(ROWS[:-1]), "failed"]


@pytest.mark.parametrize(
    ("edited", "asked"),
    [
        (("a", "new", "b", "same", "c", "same", "same", "d"), ["new"]),
        (("d", "same", "c", "b", "a", "same", "same"), []),
        (("a", "same"), []),
        ((*ROWS, "same", "new"), ["same", "new"]),
        (("same",) * 5, ["same", "same"]),
    ],
)
@pytest.mark.parametrize("die_after", [None, 7])
def test_an_edited_input_runs_what_is_new(
    job: Job, edited: Sequence[str], asked: list[str], die_after: int | None
) -> None:
    """Rows are told by content: inserted ones run, moved and removed ones do not."""
    first = ROWS if die_after is None else (*ROWS, "never")
    try:
        job.run(first, die_after=die_after)
    except KilledError:
        assert die_after is not None

    assert job.run(edited) == asked
    assert job.answers() == expected(edited)


@pytest.mark.parametrize("die_after", [None, 7])
def test_finished_rows_that_are_not_asked_for_are_told(
    job: Job, die_after: int | None
) -> None:
    """What is left out of the results is said, and what is never finished is not."""
    job.failing = {"b"}
    with suppress(KilledError):
        job.run((*ROWS, "never"), die_after=die_after)
    job.failing = set()
    rows = [text for text in (*ROWS, "never") if text != "b"]
    job.run(rows)
    told_first = list(job.notes)
    job.run(["a", "same"])

    assert told_first == []
    (note,) = job.notes
    assert note == (
        "the input has not all rows that earlier runs finished: "
        f"{len(rows) - 2} of them left out of {str(job.out)!r}"
    )


@pytest.mark.parametrize("die_after", [None, 3])
def test_an_input_without_rows_drops_nothing(job: Job, die_after: int | None) -> None:
    """It is a mistake where earlier runs finished some: all stays as it was."""
    with suppress(KilledError):
        job.run(ROWS, die_after=die_after)
    with pytest.raises(ResultsError, match=r"has no rows, and .* finished \d+ .*mend"):
        job.run([])

    assert len(job.run(ROWS)) == (0 if die_after is None else len(ROWS) - die_after)
    assert job.answers() == expected(ROWS)
    job.run([], overwrite=True)
    assert job.answers() == []


@pytest.mark.parametrize(("number", "error"), [(errno.ENOSPC, 3), (errno.EACCES, 2)])
def test_a_manifest_that_cannot_be_begun_ends_the_run(
    job: Job, monkeypatch: pytest.MonkeyPatch, number: int, error: int
) -> None:
    """A full disk is not the fault of the command."""

    def refuse(*_: object, **more: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("sglrun.batch.durable.write_manifest", refuse)
    with pytest.raises(SglrunError, match=os.strerror(number)) as caught:
        job.run(ROWS)

    assert caught.value.exit_code == error


def test_dying_while_complete_results_are_opened_up(job: Job) -> None:
    """A complete job that dies while it gets more rows has lost nothing."""
    job.run(ROWS)
    with pytest.raises(KilledError):
        job.run((*ROWS, "x", "y"), die_after=1)

    assert job.answers() == expected(ROWS)
    assert job.run((*ROWS, "x", "y")) == ["y"]
    assert job.answers() == expected((*ROWS, "x", "y"))


@pytest.mark.parametrize("die_after", [None, 3])
def test_another_run_is_refused_by_what_changed(
    job: Job, die_after: int | None
) -> None:
    """Results of another model are refused, naming the change, and not touched."""
    try:
        job.run(ROWS, die_after=die_after)
    except KilledError:
        assert die_after is not None
    before = {name: (job.out.parent / name).read_bytes() for name in job.files}
    job.identity["model"] = "m2"
    with pytest.raises(ResultsError, match="model: m1 → m2"):
        job.run(ROWS)

    assert before == {name: (job.out.parent / name).read_bytes() for name in job.files}


def test_overwrite_begins_anew(job: Job) -> None:
    """With overwrite nothing is taken over; the old results stay until the new."""
    job.run(ROWS)
    job.identity["model"] = "m2"
    with pytest.raises(KilledError):
        job.run(("x", "y"), die_after=1, overwrite=True)

    assert job.answers() == expected(ROWS)
    assert job.run(("x", "y")) == ["y"]
    assert job.answers() == ["to x", "to y"]


def test_overwrite_that_dies_at_once_can_go_on(job: Job) -> None:
    """A run that overwrites and dies before its first result may be given again."""
    job.run(ROWS)
    with pytest.raises(KilledError):
        job.run(("x",), die_after=0, overwrite=True)

    assert job.run(("x",)) == ["x"]
    assert job.answers() == ["to x"]


def test_a_foreign_file_is_not_touched(job: Job) -> None:
    """A file that is from no run is refused, whatever else is there."""
    job.out.write_text("precious")
    with pytest.raises(ResultsError, match="is not from this run"):
        job.run(ROWS)

    assert job.files == {"out.jsonl"}
    assert job.out.read_text() == "precious"
    assert job.run(ROWS, overwrite=True) == list(ROWS)


def test_an_empty_file_is_no_loss(job: Job) -> None:
    """An empty file, as ``mktemp`` makes one, is written to."""
    job.out.touch()

    assert job.run(ROWS) == list(ROWS)


def test_results_that_someone_changed_are_not_replaced(job: Job) -> None:
    """Complete results that were edited are refused."""
    job.run(ROWS)
    job.out.write_bytes(job.out.read_bytes()[:-10])
    with pytest.raises(ResultsError, match="was changed since"):
        job.run(ROWS)


def test_a_file_that_appears_meanwhile_is_not_replaced(job: Job) -> None:
    """What someone puts in the place of the results of a dead run is refused."""
    with pytest.raises(KilledError):
        job.run(ROWS, die_after=2)
    job.out.write_text("precious")
    with pytest.raises(ResultsError, match="while this run was interrupted"):
        job.run(ROWS)

    assert job.out.read_text() == "precious"


def test_a_journal_without_a_manifest_is_refused(job: Job) -> None:
    """A journal of which nobody knows what it is made of is not gone on with."""
    with pytest.raises(KilledError):
        job.run(ROWS, die_after=2)
    job.manifest.write_text("{")
    with pytest.raises(ResultsError, match=r"out\.jsonl\.part' exists and is not"):
        job.run(ROWS)

    assert job.part.stat().st_size > 0


def test_two_runs_at_once(job: Job) -> None:
    """The second of two runs is told whose the results are, and changes nothing."""
    with job.open() as output:
        for row in output.remaining(rows_of(ROWS)):
            output.append([job.result(row)])
        with pytest.raises(
            ResultsLockedError, match=rf"\(process {os.getpid()}, since 2"
        ):
            job.open()
        output.finish(RunSummary())

    assert job.answers() == expected(ROWS)


@pytest.mark.parametrize("link", ["same", "symlink", "hardlink", "new"])
def test_the_input_is_not_the_output(tmp_path: Path, link: str) -> None:
    """Results do not go where the rows come from, by whatever name."""
    inputs = tmp_path / ("out.jsonl.new" if link == "new" else "in.jsonl")
    inputs.write_text('{"q": 1}\n')
    out = inputs if link == "same" else tmp_path / "out.jsonl"
    if link == "symlink":
        out.symlink_to(inputs)
    elif link == "hardlink":
        out.hardlink_to(inputs)
    with read_rows(str(inputs)) as rows:
        options = DurableOptions(
            identity=IDENTITY, overwrite=True, input_identity=rows.source.identity
        )
    with pytest.raises(ResultsError, match="is the input"):
        DurableOutput(str(out), render_record, options)

    assert inputs.read_text() == '{"q": 1}\n'
    assert not (tmp_path / "in.jsonl.part").exists()


@pytest.mark.parametrize("place", ["/dev/null", "."])
def test_results_are_a_regular_file(place: str) -> None:
    """A device or a folder cannot hold results."""
    with pytest.raises(ResultsError, match="no regular file"):
        DurableOutput(place, render_record, DurableOptions(identity=IDENTITY))


def test_a_link_to_the_results_stays_a_link(job: Job) -> None:
    """Results named by a link go where it points."""
    target = job.out.with_name("target.jsonl")
    job.out.symlink_to(target)
    job.run(ROWS)

    assert job.out.is_symlink()
    assert target.is_file()
    assert job.answers() == expected(ROWS)


def test_a_missing_result_is_named(job: Job) -> None:
    """A row whose result never came stops the run at its end, by its index."""
    with job.open() as output:
        for row in output.remaining(rows_of(ROWS)):
            if row.index != 3:
                output.append([job.result(row)])
        with pytest.raises(RunStoppedError, match="row 3 has no result"):
            output.finish(RunSummary())

    assert job.files == {"out.jsonl.part", "out.jsonl.run.json"}
    assert job.run(ROWS) == ["c"]


def test_a_damaged_result_is_named(job: Job) -> None:
    """A result that is not there as it was written stops the run at its end."""
    with job.open() as output:
        for row in output.remaining(rows_of(ROWS)):
            output.append([job.result(row)])
        damaged = job.part.read_bytes().replace(b"to c", b"to X")
        job.part.write_bytes(damaged)
        with pytest.raises(RunStoppedError, match="row 3 has no result"):
            output.finish(RunSummary())

    assert job.run(ROWS) == ["c"]


def test_a_result_of_another_row_is_named(job: Job) -> None:
    """A row that got the result of another stops the run, whatever its index says."""
    with job.open() as output:
        rows = list(output.remaining(rows_of(ROWS)))
        output.append([job.result(row) for row in rows])
        output._places[1], output._places[3] = output._places[3], output._places[1]
        with pytest.raises(RunStoppedError, match="row 1 has no result"):
            output.finish(RunSummary())

    assert not job.out.exists()
    assert job.run(ROWS) == []
    assert job.answers() == expected(ROWS)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda data: data[: data.rindex(b"\n", 0, -1) + 1], "6 lines for 7 rows"),
        (lambda data: data + data[-20:], "line 8 is not that of row 7"),
        (lambda data: data.replace(b"to c", b"to X"), "checksum is another"),
        (lambda data: data.replace(b'"index": 2', b'"index": 5'), "line 3 is not"),
    ],
)
def test_what_is_written_is_read_back(
    job: Job,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[bytes], bytes],
    told: str,
) -> None:
    """Results that lie on the disk otherwise than written do not appear."""
    new = job.out.with_name("out.jsonl.new")

    def changing(fd: int) -> None:
        del fd
        if new.exists():
            new.write_bytes(change(new.read_bytes()))

    with job.open() as output:
        rows = list(output.remaining(rows_of(ROWS)))
        output.append([job.result(row) for row in rows])
        monkeypatch.setattr(os, "fsync", changing)
        with pytest.raises(RunStoppedError, match=told):
            output.finish(RunSummary())
        monkeypatch.undo()

    assert not job.out.exists()
    assert job.run(ROWS) == []
    assert job.answers() == expected(ROWS)


def test_no_room_for_the_end_keeps_all(job: Job) -> None:
    """Results that cannot be written at the end are kept in the journal."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with job.open() as output:
        for row in output.remaining(rows_of(ROWS)):
            output.append([job.result(row)])
        resource.setrlimit(resource.RLIMIT_FSIZE, (50, limits[1]))
        try:
            with pytest.raises(RunStoppedError, match="finished rows are kept in"):
                output.finish(RunSummary())
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert job.files == {"out.jsonl.part", "out.jsonl.run.json"}
    assert job.run(ROWS) == []
    assert job.answers() == expected(ROWS)


def test_the_manifest_tells_what_was_run(job: Job) -> None:
    """The manifest of a complete run has identity and counts."""
    job.run(ROWS)
    manifest = json.loads(job.manifest.read_text())

    assert manifest["state"] == "complete"
    assert manifest["identity"] == IDENTITY
    assert manifest["rows"] == len(ROWS)
    assert manifest["about"]["last run"]["ok"] == len(ROWS)
    assert manifest["about"]["command"] == "sglrun batch"


def test_resumed_rows_are_counted(job: Job) -> None:
    """How many rows an earlier run finished is known while rows are taken."""
    with pytest.raises(KilledError):
        job.run(ROWS, die_after=4)
    with job.open() as output:
        left = list(output.remaining(rows_of(ROWS)))

        assert output.resumed == 4
        assert len(left) == 3


def test_an_empty_input_has_empty_results(job: Job) -> None:
    """No rows give an empty file, and nothing more the second time."""
    job.run(())

    assert job.out.read_bytes() == b""
    assert job.run(()) == []
    assert job.files == {"out.jsonl", "out.jsonl.run.json"}
