"""Memory: what a run holds does not grow with its rows.

    python -m tests.bench.memory [ROWS]

Runs ROWS (by default 1,000,000) rows of 1 KB on the mock backend, to stdout and to a
file, beside 5,000 of them, and prints the peaks.
"""

import sys
import tempfile
from pathlib import Path

from tests.bench.measured import measure, sglrun

FEW = 5_000
PROGRAM = """
import sglrun as sgl

@sgl.function
def first_word(s, text):
    s += "The first word of " + text[:40] + " is" + sgl.gen("word", max_tokens=2)
"""


def main() -> None:
    """Measure and print."""
    many = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "program.py").write_text(PROGRAM, "utf-8")
        for rows in (FEW, many):
            with (folder / f"{rows}.jsonl").open("w", encoding="utf-8") as file:
                for number in range(rows):
                    file.write(f'{{"id": {number}, "text": "{number:0980d}"}}\n')
        for output in ([], ["-o", "out.jsonl", "--overwrite"]):
            where = "file" if output else "stdout"
            for rows in (FEW, many):
                words = sglrun("program.py", f"{rows}.jsonl", "-b", "mock", *output)
                cost = measure(words, folder)
                print(  # noqa: T201 - a benchmark's result
                    f"{where:6} {rows:>9,} rows: peak {cost.peak_mb:5.0f} MB, "
                    f"{cost.cpu_s / rows * 1e6:5.0f} us of processor a row"
                )


if __name__ == "__main__":
    main()
