"""Start-up: what a command costs before it does anything.

    python -m tests.bench.startup

Prints the processor time of the help, and of one row on the mock backend, beside that
of Python alone; each is the least of several runs, with bytecode written before.
"""

import sys
import tempfile
from pathlib import Path

from tests.bench.measured import measure, sglrun

RUNS = 8
PROGRAM = """
import sglrun as sgl

@sgl.function
def answer(s, q):
    s += q + sgl.gen("a")
"""


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "program.py").write_text(PROGRAM, "utf-8")
        (folder / "in.jsonl").write_text('{"q": "Why?"}\n', "utf-8")
        commands = {
            "python": [sys.executable, "-c", "pass"],
            "help": [sys.executable, "-m", "sglrun", "--help"],
            "one row": sglrun("program.py", "in.jsonl", "-b", "mock"),
        }
        for what, words in commands.items():
            least = min(measure(words, folder).cpu_s for _ in range(RUNS))
            print(f"{what:8} {least * 1e3:4.0f} ms of processor")  # noqa: T201


if __name__ == "__main__":
    main()
