"""Memory: what a run holds does not grow with its rows.

    python -m tests.bench.memory [ROWS [PATH ...]]

Runs ROWS (by default 1,000,000) rows of 1 KB on the mock backend, by every path that
rows take, beside 5,000 of them. Prints the peaks, and by how much a row adds to them.
"""

import gzip
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from tests.bench.measured import Measured, measure, sglrun

FEW = 5_000
PROGRAM = """
import sglrun as sgl

@sgl.function
def first_word(s, text):
    s += "The first word of " + text[:40] + " is" + sgl.gen("word", max_tokens=2)
"""

# In this order: "again" has nothing left to do, "more" has one row more.
PATHS: Mapping[str, Sequence[str]] = {
    "stdout": ("rows.jsonl",),
    "gzip": ("rows.jsonl.gz",),
    "file": ("rows.jsonl", "-o", "out.jsonl"),
    "again": ("rows.jsonl", "-o", "out.jsonl"),
    "more": ("more.jsonl", "-o", "out.jsonl"),
    "prefix": ("rows.jsonl", "-o", "prefix.jsonl", "--schedule", "prefix"),
}


def main() -> None:
    """Measure and print."""
    arguments = sys.argv[1:]
    many = int(arguments.pop(0)) if arguments else 1_000_000
    paths = arguments or list(PATHS)
    few = {path: cost.peak_mb for path, cost in measured(paths, FEW)}
    for path, cost in measured(paths, many):
        grown = (cost.peak_mb - few[path]) * (1 << 20) / (many - FEW)
        print(  # noqa: T201 - a benchmark's result
            f"{path:6} {many:>9,} rows: peak {cost.peak_mb:4.0f} MB, {grown:4.0f} "
            f"bytes a row more than of {FEW:,}; {cost.cpu_s / many * 1e6:4.0f} us of "
            "processor a row",
            flush=True,
        )


def measured(paths: Iterable[str], rows: int) -> Iterator[tuple[str, Measured]]:
    """Yield what a run of *rows* by each of *paths* costs."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "program.py").write_text(PROGRAM, "utf-8")
        _write_rows(folder, rows)
        for path in paths:
            words = sglrun("program.py", *PATHS[path], "-b", "mock")
            yield path, measure(words, folder)


def _write_rows(folder: Path, rows: int) -> None:
    with (
        (folder / "rows.jsonl").open("wb") as plain,
        (folder / "more.jsonl").open("wb") as more,
        gzip.open(folder / "rows.jsonl.gz", "wb", compresslevel=1) as packed,
    ):
        for number in range(rows + 1):
            row = f'{{"id": {number}, "text": "{number:0980d}"}}\n'.encode()
            more.write(row)
            if number < rows:
                plain.write(row)
                packed.write(row)


if __name__ == "__main__":
    main()
