"""``sglrun report``: what came of a run, as one HTML page."""

import datetime as dt
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from sglrun.batch.manifest import read_manifest
from sglrun.batch.past_run import PastRun, past_run
from sglrun.batch.prices import Prices
from sglrun.batch.recorded import RecordedReader
from sglrun.batch.run_files import RunFiles
from sglrun.batch.sources import STDIN, Source
from sglrun.cli.streams import Streams
from sglrun.cli.versions import version_of
from sglrun.display.report.findings import Findings
from sglrun.display.report.page import MARK, render_page
from sglrun.display.report.subject import Subject
from sglrun.errors import InputError, ResultsError, UsageError

_STDOUT = "-"
_HEAD_BYTES = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class _Results:
    """Where results are read.

    Attributes:
        path: the complete results, the journal, or ``-``.
        is_journal: it is the journal.
        run: what the manifest beside it tells.
    """

    path: str
    is_journal: bool = False
    run: PastRun | None = None


def report(
    ctx: typer.Context,
    results: Annotated[
        str,
        typer.Argument(metavar="OUT", help="Results, complete or not; - is stdin."),
    ],
    *,
    output: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Write the page here; - is stdout. Without it the page goes to "
            "stdout, or to OUT.html where that is a terminal.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Write one HTML page about a run: outcome, speed, tokens, errors, rows.

    The page loads nothing and needs no server. Of a run that has not ended it tells
    what is there so far.
    """
    streams: Streams = ctx.obj
    target = _target(results, output, streams)
    found = _find(results)
    page = render_page(_subject(results, found))
    if target is None:
        streams.write(page)
        return
    _write(target, page)
    streams.say(f"sglrun: report: {target}")


def _target(results: str, output: str | None, streams: Streams) -> Path | None:
    """Return where the page goes; ``None`` is stdout.

    Raises:
        UsageError: there is no such place, or something else is there.
    """
    if output == _STDOUT or (output is None and not streams.out_is_terminal):
        streams.need_stdout()
        return None
    if output is None and results == STDIN:
        raise UsageError("results from stdin have no name; say -o page.html")
    files = RunFiles.of(results)
    target = Path(f"{results}.html" if output is None else output)
    if output is None and target.exists() and not _is_page(target):
        raise UsageError(f"{str(target)!r} is no report; say where with -o page.html")
    own = (files.results, files.part, files.manifest)
    if any(target.exists() and each.exists() and target.samefile(each) for each in own):
        raise UsageError(f"{str(target)!r} is what the report is about")
    return target


def _is_page(path: Path) -> bool:
    with path.open("rb") as file:
        return MARK.encode() in file.read(_HEAD_BYTES)


def _find(results: str) -> _Results:
    """Return where the results are: the journal counts if it is not empty.

    Raises:
        ResultsError: there are none.
    """
    if results == STDIN:
        return _Results(path=results)
    files = RunFiles.of(results.removesuffix(".part"))
    manifest = read_manifest(files.manifest)
    run = None if manifest is None else past_run(manifest)
    if files.part.is_file() and files.part.stat().st_size:
        return _Results(path=str(files.part), is_journal=True, run=run)
    if files.results.exists():
        return _Results(path=str(files.results), run=run)
    raise ResultsError(
        f"there are no results: neither {results!r} nor {files.part.name!r}"
    )


def _subject(name: str, results: _Results) -> Subject:
    """Read the results.

    Raises:
        InputError: they cannot be read.
        ResultsError: they are no results.
    """
    reader = RecordedReader(results.path, is_journal=results.is_journal)
    findings = Findings()
    for result in reader:
        findings.add(result)
    if reader.unread and not findings.rows:
        raise ResultsError(f"{name!r} holds no results of sglrun")
    run = results.run
    subject = Subject(
        name="stdin" if name == STDIN else name,
        findings=findings,
        unread=reader.unread,
        run=run,
        total=None if run is None or run.complete else _input_rows(run),
        made=dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        version=version_of("sglrun"),
    )
    if run is None or run.prices is None:
        return subject
    return replace(subject, cost=Prices(**run.prices).cost(subject.usage))


def _input_rows(run: PastRun) -> int | None:
    """Return how many rows there are to be, where the input is still there."""
    if run.input is None or not Path(run.input).is_file():
        return None
    try:
        with Source(run.input) as source:
            rows = sum(1 for line in source if line.strip())
    except InputError:
        return None
    return rows if run.limit is None else min(rows, run.limit)


def _write(target: Path, page: bytes) -> None:
    """Write *page* to *target*, as a whole where that is a file.

    Raises:
        ResultsError: it cannot be written.
    """
    try:
        if target.exists() and not target.is_file():
            target.write_bytes(page)
            return
        new = target.with_name(f"{target.name}.new")
        new.write_bytes(page)
        new.replace(target)
    except OSError as exc:
        raise ResultsError(f"cannot write {str(target)!r}: {exc.strerror}") from exc
