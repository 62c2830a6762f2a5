"""The files of a run: where its results, its journal and its manifest lie."""

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from sglrun.errors import ResultsError


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFiles:
    """Files that belong together.

    Attributes:
        shown: the results as a user named them.
        results: the complete results; what a link points to.
        part: the journal.
        steps: the answers of rows that are not finished.
        manifest: what the results are made of.
    """

    shown: str
    results: Path
    part: Path
    steps: Path
    manifest: Path

    @classmethod
    def of(cls, path: str) -> Self:
        """Return the files of the results that a user calls *path*."""
        results = Path(os.path.realpath(path))
        return cls(
            shown=path,
            results=results,
            part=results.with_name(f"{results.name}.part"),
            steps=results.with_name(f"{results.name}.steps"),
            manifest=results.with_name(f"{results.name}.run.json"),
        )

    @property
    def new_results(self) -> Path:
        """Where complete results are made before they appear."""
        return new_beside(self.results)

    @property
    def new_part(self) -> Path:
        """Where a journal is made from complete results before it appears."""
        return new_beside(self.part)

    @property
    def results_size(self) -> int:
        """The size of the results in bytes; 0 if there are none."""
        return _size(self.results)

    @property
    def part_size(self) -> int:
        """The size of the journal in bytes; 0 if there is none."""
        return _size(self.part)

    @property
    def steps_size(self) -> int:
        """The size of the kept answers in bytes; 0 if there are none."""
        return _size(self.steps)

    def remove_new(self) -> None:
        """Remove what a run was making when it was killed."""
        for path in self._new:
            path.unlink(missing_ok=True)

    @property
    def _new(self) -> tuple[Path, ...]:
        finished = (self.results, self.part, self.steps, self.manifest)
        return tuple(map(new_beside, finished))

    def check(self, input_identity: tuple[int, int] | None) -> None:
        """Check that these can be files of their own.

        Raises:
            ResultsError: one is no regular file, or is the input.
        """
        made = (self.part, self.steps, self.manifest, *self._new)
        for place in (self.shown, *map(str, made)):
            try:
                status = os.stat(place)  # noqa: PTH116 - as named: a path drops "/"
            except OSError:
                continue
            if not stat.S_ISREG(status.st_mode):
                raise ResultsError(
                    f"{place!r} is no regular file; without -o results go to stdout"
                )
            if (status.st_dev, status.st_ino) == input_identity:
                raise ResultsError(
                    f"{place!r} is the input; choose another name for the results"
                )


def new_beside(path: Path) -> Path:
    """Return where the file that is to be at *path* is made before it appears."""
    return path.with_name(f"{path.name}.new")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
