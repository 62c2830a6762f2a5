"""The view of a run: progress while it lasts, a summary at its end, failures logged."""

import json
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Self

from sglrun.batch.results import RowResult
from sglrun.batch.runner import BatchRunner
from sglrun.batch.sources import Source
from sglrun.batch.summary import RunSummary
from sglrun.cli.log import logger, said
from sglrun.cli.streams import Streams
from sglrun.config import RunConfig
from sglrun.display.complaints import Complaints
from sglrun.display.displays import choose_progress, create_progress
from sglrun.display.meter import Meter
from sglrun.display.summary import Outcome, as_event, render
from sglrun.errors import InputError

_LOG_WIDTH = 200


class RunView:
    """Shows a run on stderr. One thread tells it what happens."""

    def __init__(self, config: RunConfig, streams: Streams) -> None:
        """Prepare; nothing is shown before the block."""
        self._config = config
        self._streams = streams
        self._meter = Meter()
        self._complaints = Complaints()
        asked = "none" if config.display.quiet else config.display.progress
        self._shown = choose_progress(asked, streams.err, dumb=config.dumb_terminal)
        self._progress = create_progress(self._shown, self._meter, streams.err)

    def __enter__(self) -> Self:
        """Begin to show, and to measure."""
        self._meter.begin()
        self._progress.start()
        return self

    def __exit__(self, *exc: object) -> None:
        """End what is shown."""
        self.close()

    def close(self) -> None:
        """End what is shown; safe from any thread."""
        self._progress.stop()

    def watch(self, runner: BatchRunner) -> None:
        """Show how many rows *runner* works on, and what it waits for."""
        self._meter.watch(lambda: runner.in_flight, lambda: runner.waiting)

    def expect_rows_of(self, path: str) -> None:
        """Count the rows of *path* meanwhile, where that can be done by reading it."""
        if self._shown != "none" and Path(path).is_file():
            threading.Thread(
                target=self._count, args=(path,), name="sglrun-count", daemon=True
            ).start()

    def check_input(self, source: Source) -> None:
        """Check that *source* is not where results are written.

        Raises:
            UsageError: it is, or it is closed.
        """
        on_stdout = self._config.rows.output is None
        self._streams.check_input(source, results_on_stdout=on_stdout)

    def add(self, results: Sequence[RowResult], *, resumed: int) -> None:
        """Show that *results* are there, and how many rows an earlier run had done."""
        self._meter.resume(resumed)
        for result in results:
            self._meter.add(ok=result.ok, usage=result.spent)
            if result.error is not None:
                self._complaints.add(result.error)
                logger.warning(
                    "row %d: %s: %s",
                    result.index,
                    result.error.type,
                    result.error.message,
                )

    def write_results(self, data: bytes) -> None:
        """Write *data* to stdout, above the progress where both are on one terminal."""
        if self._shown == "rich" and self._streams.out_is_terminal:
            self._progress.write_above(data.decode("utf-8", "replace").rstrip("\n"))
        else:
            self._streams.write(data)

    def written_results(self) -> Callable[[], Iterator[bytes]] | None:
        """Return what reads the results back, where stdout is a file."""
        return self._streams.written_from_here()

    def note(self, text: str) -> None:
        """Say what a user should hear."""
        said.info("%s", text)
        if not self._config.display.quiet:
            self._streams.say(f"sglrun: {text}")

    def summarize(self, summary: RunSummary, *, resumed: int) -> None:
        """Say what came of the run."""
        output = self._config.rows.output
        outcome = Outcome(
            summary=summary,
            resumed=resumed,
            complaints=self._complaints,
            output=output,
            resumable=output is not None,
        )
        terminal = self._streams.err.isatty()
        width = shutil.get_terminal_size().columns if terminal else _LOG_WIDTH
        color = terminal and self._config.color
        lines = list(render(outcome, width=width, color=color))
        said.info("%s", lines[0])
        if self._config.display.quiet:
            return
        if self._shown == "json":
            lines = [json.dumps(as_event(outcome))]
        for line in lines:
            self._streams.say(line)

    def _count(self, path: str) -> None:
        limit = self._config.rows.limit
        try:
            with Source(path) as source:
                rows = sum(1 for line in source if line.strip())
        except InputError:
            return
        self._meter.expect(rows if limit is None else min(rows, limit))
