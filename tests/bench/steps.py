"""The steps: what it costs to keep the answers of rows that are not finished.

    python -m tests.bench.steps [ROWS]

Runs ROWS (by default 20,000) rows of three requests each on the mock backend to a file,
with and without keeping answers, and rows of one request; prints the processor time of
a row, and the bytes that an answer takes on the disk.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.bench.measured import ROOT, measure, sglrun

PROGRAM = """
import sglrun as sgl

@sgl.function
def asks(s, q):
    s += sgl.user(q)
    for name in "abc"[:{count}]:
        s += sgl.assistant(sgl.gen(name, max_tokens=32)) + sgl.user("Go on.")
{end}
"""


def main() -> None:
    """Measure and print."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "in.jsonl").write_text(
            "".join(f'{{"q": "What is {n} and more?"}}\n' for n in range(rows)), "utf-8"
        )
        for count in (1, 3):
            text = PROGRAM.format(count=count, end="")
            (folder / "program.py").write_text(text, "utf-8")
            for option in ("--replay", "--no-replay"):
                words = ("-b", "mock", "-o", "out.jsonl", "--overwrite", option)
                cost = measure(sglrun("program.py", "in.jsonl", *words), folder)
                print(  # noqa: T201 - a benchmark's result
                    f"{count} requests a row, {option:11}: "
                    f"{cost.cpu_s / rows * 1e6:5.0f} us of processor a row, "
                    f"peak {cost.peak_mb:.0f} MB"
                )
        (folder / "program.py").write_text(PROGRAM.format(count=3, end="    1 / 0"))
        failing = ("-b", "mock", "-o", "out.jsonl", "--overwrite", "--limit", "100")
        subprocess.run(  # every row fails, so that its answers are kept
            sglrun("program.py", "in.jsonl", *failing),
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            check=False,
        )
        size = (folder / "out.jsonl.steps").stat().st_size
        print(f"{size / 300:.0f} bytes an answer")  # noqa: T201


if __name__ == "__main__":
    main()
