"""The embedded engine: its time beside a server's, one row at a time, and the bound.

    python -m tests.bench.engine [SHARE [WORK ...]]

SHARE (by default 1) is the part of the rows to run. Printed for each work are the
steps, the tokens that were computed beside those that had to be, and the ratio of its
time to (a) ``xllamacpp.Server`` in a process of its own, (b) one request at a time with
nothing shared, of which some are timed, and (c) those tokens at the rates of the bare
context. Ratios mean little on a machine that is busy with something else.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from sglrun.backends.base import Request, SelectRequest
from sglrun.backends.local import store
from sglrun.backends.local.backend import LocalBackend
from sglrun.backends.local.context import Context, Entry
from sglrun.backends.local.processors import usable_processors
from sglrun.lang.prompt import Prompt
from sglrun.lang.sampling import DEFAULTS, SamplingParams

SENTENCE = "The harbour keeps a list of ships, their masters and what they carry. "
OWN = "Row {}: " + "the ship came late and left with salt, tin, wool and glass. " * 3
CHOICES = (" a list of ships", " a wooden box", " nothing at all", " the old master")
ALONE = 3
SERVER = """
import json, sys, time
from concurrent.futures import ThreadPoolExecutor
import xllamacpp as x
model, work = sys.argv[1], json.load(sys.stdin)
p = x.CommonParams()
p.model.path, p.n_parallel, p.n_ctx, p.n_batch, p.n_ubatch = model, 4, 16384, 2048, 512
p.cpuparams.n_threads = p.cpuparams_batch.n_threads = work["threads"]
p.n_gpu_layers, p.verbosity, p.warmup, p.kv_unified = 0, -1, True, True
server = x.Server(p)
def ask(prompt):
    return server.handle_completions({"prompt": prompt, "max_tokens": work["new"],
        "temperature": 0, "cache_prompt": True, "ignore_eos": True})
began = time.perf_counter()
with ThreadPoolExecutor(32) as pool:
    answers = list(pool.map(ask, work["prompts"]))
spent = time.perf_counter() - began
assert all("choices" in answer for answer in answers)
print("spent", spent, flush=True)
import os; os._exit(0)
"""


@dataclass(slots=True)
class Work:
    """Requests, and what is known of them once they are done.

    Attributes:
        new: tokens that each request writes; none where it selects.
        asked: the prompts, in order, with the text that each got.
    """

    name: str
    new: int
    asked: list[tuple[str, str]] = field(default_factory=list)


class Counted:
    """A backend whose steps are counted."""

    def __init__(self, backend: LocalBackend) -> None:
        """Count what *backend* computes."""
        self.backend = backend
        self.steps: list[int] = []
        self.inside_s = 0.0
        context = backend._runtime.engine._context
        decode = context.decode

        def counted(entries: list[Entry]) -> int:
            began = time.perf_counter()
            code = decode(entries)
            self.inside_s += time.perf_counter() - began
            self.steps.append(len(entries))
            return code

        context.decode = counted  # type: ignore[method-assign]

    def ask(self, work: Work, prompt: str) -> str:
        """Return the answer to *prompt*, and note it."""
        shown = Prompt(text=prompt)
        if work.new:
            sampling = SamplingParams.of(
                max_new_tokens=work.new, temperature=0, ignore_eos=True
            ).over(DEFAULTS)
            answer = self.backend.generate(Request(prompt=shown, sampling=sampling))
            text = answer.samples[0].text
        else:
            self.backend.select(SelectRequest(prompt=shown, choices=CHOICES))
            text = ""
        work.asked.append((prompt, text))
        return text

    def reset(self) -> None:
        """Forget the cache and the counts."""
        self.backend.flush_cache()
        self.steps.clear()
        self.inside_s = 0.0


class Rates:
    """Tokens a second of the bare context, after as many as a work's prompts have."""

    def __init__(self, backend: LocalBackend) -> None:
        """Allocate a context of the size that *backend* has."""
        runtime = backend._runtime
        self._batch = backend._settings.batch
        self._context = Context(
            runtime.model, runtime.tokenizer.size, backend._settings
        )
        self._tokens: tuple[int, ...] = ()

    def read(self, tokens: tuple[int, ...]) -> float:
        """Return the rate of reading *tokens*, which ``write`` goes on from."""
        self._tokens = tokens
        for sequence in range(255):
            self._context.truncate(sequence, 0)
        wanted = len(tokens) - 1
        entries = [Entry(t, n, 0, n == wanted) for n, t in enumerate(tokens)]
        starts = range(0, len(entries), self._batch)
        return len(entries) / sum(
            self._timed(entries[at : at + self._batch]) for at in starts
        )

    def write(self, rows: int, steps: int = 8) -> float:
        """Return the rate of writing *rows* texts at once."""
        length = len(self._tokens)
        for row in range(1, rows + 1):
            self._context.fork(0, row, length)
        spent = sum(
            self._timed(
                [
                    Entry(self._tokens[row], length + at, row, wanted=True)
                    for row in range(1, rows + 1)
                ]
            )
            for at in range(steps)
        )
        return rows * steps / spent

    def _timed(self, entries: list[Entry]) -> float:
        began = time.perf_counter()
        self._context.decode(entries)
        return time.perf_counter() - began


def rows_of(counted: Counted, work: Work, sentences: int, rows: int) -> int:
    """Ask for *rows* that share *sentences*; return how many are written at once."""
    prompts = [SENTENCE * sentences + OWN.format(number) for number in range(rows)]
    with ThreadPoolExecutor(rows) as pool:
        list(pool.map(lambda prompt: counted.ask(work, prompt), prompts))
    return min(rows, 64)


def tree_of(counted: Counted, work: Work, wide: int) -> int:
    """Ask for a tree of three levels, one level after the other."""
    pool = ThreadPoolExecutor(wide**3)

    def level(texts: list[str]) -> list[str]:
        prompts = [f"{text}\nPart {at}:" for text in texts for at in range(wide)]
        answers = pool.map(lambda prompt: counted.ask(work, prompt), prompts)
        return [a + b for a, b in zip(prompts, answers, strict=True)]

    with pool:
        level(level(level([SENTENCE * 34])))
    return min(wide**3, 64)


def needed(counted: Counted, work: Work) -> tuple[int, int]:
    """Return the tokens that must be read, each prefix once, and those to write."""
    encode = counted.backend._runtime.tokenizer.encode
    heads: set[int] = set()
    written = len(work.asked) * max(0, work.new - 1)
    for prompt, text in work.asked:
        tokens, chained = encode(prompt + text), 0
        if work.new:  # nothing is drawn after the last token
            tokens = tokens[:-1]
        for token in tokens:
            chained = hash((chained, token))
            heads.add(chained)
    options = sum(len(encode(choice)) - 1 for choice in CHOICES)
    if not work.new:
        return len(heads) + len(work.asked) * options, 0
    return len(heads) - written, written


def alone_s(counted: Counted, work: Work) -> float:
    """Return the time of all requests one at a time, from some of them."""
    some = work.asked[:: max(1, len(work.asked) // ALONE)][:ALONE]
    began = time.perf_counter()
    for prompt, _ in some:
        for _ in CHOICES if not work.new else (None,):
            counted.backend.flush_cache()
            counted.ask(Work(work.name, work.new), prompt)
    return (time.perf_counter() - began) / len(some) * len(work.asked)


def server_s(counted: Counted, work: Work) -> float:
    """Return the time of the library's own server, at a request a choice."""
    prompts = [prompt for prompt, _ in work.asked]
    if not work.new:
        prompts = [prompt + choice for prompt in prompts for choice in CHOICES]
    given = {"new": work.new or 1, "prompts": prompts, "threads": usable_processors()}
    done = subprocess.run(
        [sys.executable, "-c", SERVER, str(counted.backend.path)],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=True,
    )
    words = done.stdout.split()
    return float(words[words.index("spent") + 1])


def report(counted: Counted, rates: Rates, work: Work, run: Callable[[], int]) -> None:
    """Run one work every way and print its line."""
    counted.reset()
    began = time.perf_counter()
    at_once = run()
    ours = time.perf_counter() - began
    steps, inside = list(counted.steps), counted.inside_s
    read, write = needed(counted, work)
    first = counted.backend._runtime.tokenizer.encode(work.asked[0][0])
    bound = read / rates.read(first)
    if write:
        bound += write / rates.write(at_once)
    sys.stdout.write(
        f"{work.name}: {ours:.1f} s, {len(steps)} steps, {sum(steps)} tokens of "
        f"{read + write} needed, {1 - inside / ours:.1%} outside the model; "
        f"(a) {ours / server_s(counted, work):.2f} "
        f"(b) {ours / alone_s(counted, work):.3f} (c) {ours / bound:.2f}\n"
    )
    sys.stdout.flush()


def main() -> None:
    """Run every work and print."""
    share = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    backend = LocalBackend(store.find_model())
    counted, rates = Counted(backend), Rates(backend)
    few, many, most = (max(4, int(rows * share)) for rows in (32, 64, 200))
    wide = 4 if share >= 1 else 2
    runs: tuple[tuple[Work, Callable[[Work], int]], ...] = (
        (Work("rows", 16), lambda work: rows_of(counted, work, 37, few)),
        (Work("documents", 16), lambda work: rows_of(counted, work, 140, many)),
        (Work("tree", 32), lambda work: tree_of(counted, work, wide)),
        (Work("select", 0), lambda work: rows_of(counted, work, 37, most)),
    )
    only = sys.argv[2:]
    for work, run in runs:
        if not only or work.name in only:
            report(counted, rates, work, partial(run, work))
    backend.close()


if __name__ == "__main__":
    main()
