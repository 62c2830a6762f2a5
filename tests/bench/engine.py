"""The embedded engine: its time beside a server's, one row at a time, and the bound.

    python -m tests.bench.engine [--no-exact] [--slots N] [--share S] [WORK ...]

S (by default 1) is the part of the rows to run. Printed for each work are the steps,
the tokens that were computed beside those that had to be, and the ratio of its time to
(a) ``xllamacpp.Server`` in a process of its own, with N slots (4 are its best),
(b) one request at a time with nothing shared, of which some are timed, and (c) those
tokens at the rates of the bare context, each where it stands: what all share, what a
row adds to it, and what all write at once. ``short`` is 10,000 short rows: printed
is the rate of each tenth, and the memory after the second and the last. Ratios mean
little on a machine that is busy with something else.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial

from sglrun.backends.base import Request, SelectRequest
from sglrun.backends.local import store
from sglrun.backends.local.backend import LocalBackend
from sglrun.backends.local.context import Context
from sglrun.backends.local.context_settings import ContextSettings
from sglrun.backends.local.machine import usable_processors
from sglrun.backends.local.step import Entry
from sglrun.lang.prompt import Prompt
from sglrun.lang.sampling import DEFAULTS, SamplingParams

SENTENCE = "The harbour keeps a list of ships, their masters and what they carry. "
OWN = "Row {}: " + "the ship came late and left with salt, tin, wool and glass. " * 3
CHOICES = (" a list of ships", " a wooden box", " nothing at all", " the old master")
ALONE = 3
REPEATS = 4  # of what the bound is taken from, since the machine's speed moves
SERVER = """
import json, sys, time
from concurrent.futures import ThreadPoolExecutor
import xllamacpp as x
model, work = sys.argv[1], json.load(sys.stdin)
p = x.CommonParams()
p.model.path, p.n_parallel, p.n_ctx = model, work["slots"], 16384
p.n_batch, p.n_ubatch = 2048, 512
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
        prefix: what all prompts begin with.
        new: tokens that each request writes; none where it selects.
        asked: the prompts, in order, with the text that each got.
    """

    name: str
    prefix: str
    new: int
    asked: list[tuple[str, str]] = field(default_factory=list)


class Counted:
    """A backend whose steps are counted."""

    def __init__(self, settings: ContextSettings) -> None:
        """Load the model."""
        self.backend = LocalBackend(store.find_model(), settings=settings)
        self.steps: list[int] = []
        self.widest = 0  # the most texts in one step
        self.inside_s = 0.0

    def begin(self, work: Work) -> None:
        """Cache what all prompts begin with, as a batch does, and count from there."""
        engine, prefix = self.backend._runtime.engine, work.prefix
        engine.expect(self.backend.count_tokens(prefix), only_scored=not work.new)
        context = engine._context
        decode = context.decode

        def counted(entries: list[Entry]) -> int:
            began = time.perf_counter()
            code = decode(entries)
            self.inside_s += time.perf_counter() - began
            self.steps.append(len(entries))
            self.widest = max(self.widest, len({each.sequence for each in entries}))
            return code

        context.decode = counted  # type: ignore[method-assign]
        self.backend.cache_prefix(Prompt(text=prefix), only_scored=not work.new)

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


class Rates:
    """Tokens a second of the bare context, after as many as a work's prompts have."""

    def __init__(self, backend: LocalBackend) -> None:
        """Allocate a context as *backend* has it."""
        runtime = backend._runtime
        self._batch = backend._settings.batch
        self._context = Context(
            runtime.model,
            runtime.tokenizer.size,
            backend._settings,
            attention=runtime.engine._context.attention,
        )
        self._tokens: tuple[int, ...] = ()

    def read(
        self, tokens: tuple[int, ...], shared: int, rows: int
    ) -> tuple[float, float]:
        """Return the rates of reading the first *shared* of *tokens*, and the others.

        The others are read by as many of *rows* at once as a step takes; ``write`` goes
        on from one of them.
        """
        self._tokens, batch = tokens, self._batch
        entries = [Entry(t, n, 0, wanted=False) for n, t in enumerate(tokens)]
        starts = range(0, shared, batch)
        first = sum(self._timed(entries[at : min(at + batch, shared)]) for at in starts)
        own = range(shared, len(tokens))
        rows = max(1, min(rows, batch // len(own)))
        others = 0.0
        for _ in range(REPEATS):
            self._context.truncate(0, shared)
            for row in range(1, rows):
                self._context.truncate(row, 0)
                self._context.fork(0, row, shared)
            self._context.compact()
            others += self._timed(
                [
                    Entry(tokens[at], at, row, wanted=at == own[-1])
                    for row in range(rows)
                    for at in own
                ]
            )
        for row in range(1, rows):
            self._context.truncate(row, 0)
        return shared / first, REPEATS * rows * len(own) / others

    def write(self, rows: int, steps: int = 24) -> float:
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

    def close(self) -> None:
        """Free the context."""
        self._context.close()

    def _timed(self, entries: list[Entry]) -> float:
        began = time.perf_counter()
        self._context.decode(entries)
        return time.perf_counter() - began


def rows_of(counted: Counted, work: Work, rows: int) -> None:
    """Ask for *rows*."""
    prompts = [work.prefix + OWN.format(number) for number in range(rows)]
    with ThreadPoolExecutor(rows) as pool:
        list(pool.map(lambda prompt: counted.ask(work, prompt), prompts))


def tree_of(counted: Counted, work: Work, wide: int) -> None:
    """Ask for a tree of three levels, one level after the other."""
    pool = ThreadPoolExecutor(wide**3)

    def level(texts: list[str]) -> list[str]:
        prompts = [f"{text}\nPart {at}:" for text in texts for at in range(wide)]
        answers = pool.map(lambda prompt: counted.ask(work, prompt), prompts)
        return [a + b for a, b in zip(prompts, answers, strict=True)]

    with pool:
        level(level(level([work.prefix])))


def needed(counted: Counted, work: Work) -> tuple[int, int]:
    """Return the tokens that must be read, each prefix once, and those to write."""
    encode = counted.backend._runtime.tokenizer.encode
    heads: set[int] = set()
    written = len(work.asked) * max(0, work.new - 1)
    for prompt, text in work.asked:
        texts = [text] if work.new else CHOICES
        for tokens in (encode(prompt + each)[:-1] for each in texts):
            chained = 0  # nothing is drawn after the last token
            for token in tokens:
                chained = hash((chained, token))
                heads.add(chained)
    return len(heads) - written, written


def alone_s(counted: Counted, work: Work) -> float:
    """Return the time of all requests one at a time, from some of them."""
    some = work.asked[:: max(1, len(work.asked) // ALONE)][:ALONE]
    began = time.perf_counter()
    for prompt, _ in some:
        for _ in CHOICES if not work.new else (None,):
            counted.backend.flush_cache()
            counted.ask(replace(work, asked=[]), prompt)
    return (time.perf_counter() - began) / len(some) * len(work.asked)


def server_s(counted: Counted, work: Work, slots: int) -> float:
    """Return the time of the library's own server, at a request a choice."""
    prompts = [prompt for prompt, _ in work.asked]
    if not work.new:
        prompts = [prompt + choice for prompt in prompts for choice in CHOICES]
    given = {
        "new": work.new or 1,
        "prompts": prompts,
        "threads": usable_processors(),
        "slots": slots,
    }
    done = subprocess.run(
        [sys.executable, "-c", SERVER, str(counted.backend.path)],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=True,
    )
    words = done.stdout.split()
    return float(words[words.index("spent") + 1])


def bound_s(counted: Counted, work: Work, at_once: int) -> float:
    """Return the time of what had to be computed, at the rates of the bare context."""
    rates = Rates(counted.backend)
    encode = counted.backend._runtime.tokenizer.encode
    prompts = [encode(prompt) for prompt, _ in work.asked]
    first, middle = prompts[0], sorted(prompts, key=len)[len(prompts) // 2]
    pairs = enumerate(zip(first, prompts[-1], strict=False))
    shared = next((at for at, (a, b) in pairs if a != b), len(first) - 1)
    read, write = needed(counted, work)
    of_shared, of_own = rates.read(middle, shared, len(prompts))
    seconds = shared / of_shared + (read - shared) / of_own
    if write:
        seconds += write / rates.write(at_once)
    rates.close()
    return seconds


def report(
    settings: ContextSettings,
    work: Work,
    run: Callable[[Counted, Work], None],
    slots: int,
) -> None:
    """Run one work every way and print its line."""
    counted = Counted(settings)
    began = time.perf_counter()
    counted.begin(work)
    run(counted, work)
    ours = time.perf_counter() - began
    at_once = counted.widest
    steps, inside = list(counted.steps), counted.inside_s
    bound = bound_s(counted, work, at_once)
    sys.stdout.write(
        f"{work.name}: {ours:.1f} s, {len(steps)} steps, {sum(steps)} tokens of "
        f"{sum(needed(counted, work))} needed, {1 - inside / ours:.1%} outside the "
        f"model; (a) {ours / server_s(counted, work, slots):.2f} "
        f"(b) {ours / alone_s(counted, work):.3f} (c) {ours / bound:.2f}\n"
    )
    sys.stdout.flush()
    counted.backend.close()


def report_short(settings: ContextSettings, rows: int) -> None:
    """Run *rows* short rows and print how fast each tenth of them was."""
    counted = Counted(settings)
    work = Work("short", SENTENCE * 6, 8)
    counted.begin(work)
    ends: list[tuple[float, int]] = []
    began = time.perf_counter()

    def ask(number: int) -> None:
        counted.ask(work, work.prefix + f"Row {number}:")
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        ends.append((time.perf_counter() - began, peak))

    with ThreadPoolExecutor(64) as pool:
        list(pool.map(ask, range(rows)))
    tenths = ends[max(1, rows // 10) - 1 :: max(1, rows // 10)]
    starts = (0.0, *(at for at, _ in tenths))
    rates = (rows / 10 / (b - a) for a, (b, _) in zip(starts, tenths, strict=False))
    sys.stdout.write(
        f"short: {rows} rows in {ends[-1][0]:.0f} s; rows a second in each tenth: "
        f"{' '.join(f'{rate:.1f}' for rate in rates)}; peak memory {tenths[1][1]} MB "
        f"after two tenths, {ends[-1][1]} MB at the end; "
        f"{1 - counted.inside_s / ends[-1][0]:.1%} outside the model\n"
    )


def main() -> None:
    """Run every work and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("works", nargs="*")
    parser.add_argument("--no-exact", action="store_true")
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--share", type=float, default=1)
    given = parser.parse_args()
    share = given.share
    settings = ContextSettings(exact=not given.no_exact)
    few, many, most = (max(4, int(rows * share)) for rows in (32, 64, 200))
    wide = 4 if share >= 1 else 2
    runs: tuple[tuple[Work, Callable[[Counted, Work], None]], ...] = (
        (Work("rows", SENTENCE * 37, 16), partial(rows_of, rows=few)),
        (Work("documents", SENTENCE * 140, 16), partial(rows_of, rows=many)),
        (Work("tree", SENTENCE * 34, 32), partial(tree_of, wide=wide)),
        (Work("select", SENTENCE * 37, 0), partial(rows_of, rows=most)),
    )
    for work, run in runs:
        if not given.works or work.name in given.works:
            report(settings, work, run, given.slots)
    if not given.works or "short" in given.works:
        report_short(settings, max(40, int(10_000 * share)))


if __name__ == "__main__":
    main()
