"""The client: what a row costs beside the script that people write instead.

    python -m tests.bench.client [ROWS]

A server in another process answers at once; the same rows are sent by ``sglrun batch``
and by a pool of threads over ``requests``, with as many requests in flight. Printed is
the processor time of each client, and their ratio.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.bench.measured import ROOT, measure, sglrun

IN_FLIGHT = 32
PROGRAM = """
import sglrun as sgl

@sgl.function
def answer(s, q):
    s += sgl.user(q) + sgl.assistant(sgl.gen("a", max_tokens=16))
"""
SCRIPT = """
import json, sys, threading
from concurrent.futures import ThreadPoolExecutor
import requests

local = threading.local()

def answer(line):
    row = json.loads(line)
    if not hasattr(local, "session"):
        local.session = requests.Session()
    reply = local.session.post(
        sys.argv[1] + "/chat/completions",
        json={"model": "stand-in", "max_tokens": 16,
              "messages": [{"role": "user", "content": row["q"]}]},
        timeout=60,
    )
    reply.raise_for_status()
    row["a"] = reply.json()["choices"][0]["message"]["content"]
    return json.dumps(row)

with ThreadPoolExecutor(%d) as pool:
    for line in pool.map(answer, open(sys.argv[2])):
        print(line)
"""
SERVER = """
import sys
from tests.stand_in import StandIn
with StandIn() as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""


def main() -> None:
    """Measure and print."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 5_000
    with (
        tempfile.TemporaryDirectory() as name,
        subprocess.Popen(
            [sys.executable, "-c", SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        ) as server,
    ):
        assert server.stdin and server.stdout  # noqa: PT018 - for mypy
        url = f"{server.stdout.readline().strip()}/v1"
        folder = Path(name)
        (folder / "program.py").write_text(PROGRAM, "utf-8")
        (folder / "script.py").write_text(SCRIPT % IN_FLIGHT, "utf-8")
        (folder / "in.jsonl").write_text(
            "".join(
                json.dumps({"q": f"What is {number} + {number}? " + "Think. " * 25})
                + "\n"
                for number in range(rows)
            ),
            "utf-8",
        )
        options = ("-b", "openai", "--url", url, "-j", str(IN_FLIGHT))
        ours = measure(sglrun("program.py", "in.jsonl", *options), folder)
        theirs = measure([sys.executable, "script.py", url, "in.jsonl"], folder)
        server.stdin.close()
    for who, cost in (("sglrun", ours), ("script", theirs)):
        print(  # noqa: T201 - a benchmark's result
            f"{who}: {cost.cpu_s / rows * 1e6:5.0f} us of processor a row, "
            f"{rows / cost.wall_s:5.0f} rows/s, peak {cost.peak_mb:.0f} MB"
        )
    print(f"sglrun/script: {ours.cpu_s / theirs.cpu_s:.2f}")  # noqa: T201


if __name__ == "__main__":
    main()
