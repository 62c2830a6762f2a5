"""Memory: what a run holds does not grow with its rows.

    python -m tests.bench.memory [ROWS]

Runs ROWS (by default 1,000,000) rows of 1 KB on the mock backend, by every path that
rows take, beside 5,000 of them. Prints the peaks, and by how much a row adds to them.
"""

import gzip
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.bench.measured import measure, sglrun

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
    many = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    few = peaks(FEW)
    for path, (peak_mb, cpu_us) in peaks(many).items():
        grown = (peak_mb - few[path][0]) * (1 << 20) / (many - FEW)
        print(  # noqa: T201 - a benchmark's result
            f"{path:6} {many:>9,} rows: peak {peak_mb:4.0f} MB, {grown:4.0f} bytes a "
            f"row more than of {FEW:,}; {cpu_us:4.0f} us of processor a row"
        )


def peaks(rows: int) -> Mapping[str, tuple[float, float]]:
    """Return the peak in MB and the processor's microseconds a row, by path."""
    found = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "program.py").write_text(PROGRAM, "utf-8")
        _write_rows(folder, rows)
        for path, words in PATHS.items():
            cost = measure(sglrun("program.py", *words, "-b", "mock"), folder)
            found[path] = (cost.peak_mb, cost.cpu_s / rows * 1e6)
    return found


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
