"""The schedule: tokens that are not computed again, by the order of the rows.

    python -m tests.bench.schedule [TEXTS.jsonl [DOCUMENTS [QUESTIONS [CELLS]]]]

Two sets are run on the embedded engine, with a cache of CELLS tokens: a question on
each text after eight worked examples, and QUESTIONS on each of DOCUMENTS, shuffled. The
texts are the first fields of the rows of TEXTS (such as GSM8K), or made up. The best
order and a cache without end read each edge of the tree of prompts once; printed is how
many prompt tokens that leaves to be cached, how many a run had cached, and its time.
"""

import json
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Literal

import sglrun as sgl
from sglrun.backends.local import store
from sglrun.backends.local.backend import LocalBackend
from sglrun.backends.local.context_settings import ContextSettings
from sglrun.batch.options import BatchOptions
from sglrun.batch.rows import Row
from sglrun.batch.runner import BatchRunner
from sglrun.interpreter.fan_out import auto_num_threads
from sglrun.lang.prompt import Prompt


@sgl.function
def ask(s: sgl.ProgramState, head: str, document: str, question: str) -> None:
    """Ask one question about one document."""
    s += f"{head}{document}\n\n{question}"
    s += sgl.gen("answer", max_tokens=4, temperature=0)


SHOTS = 8
WORDS = ("ship", "salt", "tin", "wool", "glass", "harbour", "letter", "road", "bread")


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Rows: the head, the document and the question of each."""

    name: str
    rows: Sequence[tuple[str, str, str]]


def texts(path: str | None) -> Iterator[str]:
    """Yield texts of a file, or made of words, without end."""
    if path is not None:
        for line in Path(path).read_text("utf-8").splitlines():
            yield str(next(iter(json.loads(line).values())))
    drawn = random.Random(5)  # noqa: S311 - the same at each run
    while True:
        yield " ".join(drawn.choices(WORDS, k=50)) + "."


def few_shot(source: Iterator[str], rows: int) -> Work:
    """Return one question on each of *rows* texts, after the same examples."""
    shots = (f"Story: {next(source)}\nIn short: yes.\n\n" for _ in range(SHOTS))
    head = "".join(shots) + "Story: "
    asked = [(head, next(source), "In short:") for _ in range(rows)]
    return Work(name="few-shot", rows=asked)


def documents(source: Iterator[str], number: int, questions: int) -> Work:
    """Return *questions* on each of *number* documents of 5 to 15 texts, shuffled."""
    drawn = random.Random(7)  # noqa: S311 - the same at each run
    head = "Answer a question about a document.\n\n"
    asked = []
    for _ in range(number):
        stories = [next(source) for _ in range(drawn.randint(5, 15))]
        document = "\n".join(f"{at}. {text}" for at, text in enumerate(stories, 1))
        asked += [
            (head, document, f"Which story is about {word}?\nAnswer:")
            for word in drawn.sample(WORDS, questions)
        ]
    drawn.shuffle(asked)
    return Work(name="documents", rows=asked)


def optimum(backend: LocalBackend, work: Work) -> tuple[int, int, int]:
    """Return the tokens of all prompts, those that need not be read, and one prompt's.

    The last token of a prompt is always computed: its logits are what is asked for.
    """
    heads: set[int] = set()
    whole = longest = 0
    for head, document, question in work.rows:
        text = f"{head}{document}\n\n{question}"
        tokens, chained = backend._read(Prompt(text=text), new=4).tokens, 0
        whole += len(tokens)
        longest = max(longest, len(tokens))
        for token in tokens:
            chained = hash((chained, token))
            heads.add(chained)
    return whole, whole - len(heads), longest


def run(
    backend: LocalBackend, work: Work, order: Literal["input", "prefix"], threads: int
) -> tuple[int, float]:
    """Return the tokens that a run had cached, and its seconds."""
    backend.flush_cache()
    names = ("head", "document", "question")
    rows = [
        Row(
            index=index,
            line=index + 1,
            content=b"",
            fields=dict(zip(names, values, strict=True)),
            raw=dict.fromkeys(names, ""),
        )
        for index, values in enumerate(work.rows)
    ]
    options = BatchOptions(schedule=order, num_threads=threads, order="completion")
    program = ask.bind(head=work.rows[0][0])
    with BatchRunner(program, backend, options) as runner:
        failed = [result.error for result in runner.results(rows) if result.error]
        summary = runner.summary()
    assert not failed, failed[0]
    return summary.saved_tokens, summary.seconds


def main() -> None:
    """Measure and print."""
    path, *numbers = sys.argv[1:] or [""]
    defaults = ("24", "6", "16384")[len(numbers) :]
    number, questions, cells = map(int, (*numbers, *defaults))
    settings = ContextSettings(cells=cells)
    backend = LocalBackend(store.find_model(), settings=settings)
    source = texts(path or None)
    works = [
        few_shot(source, number * questions // 2),
        documents(source, number, questions),
    ]
    orders: tuple[Literal["input", "prefix"], ...] = ("input", "prefix")
    for work in works:
        whole, best, longest = optimum(backend, work)
        say(
            f"{work.name}: {len(work.rows)} rows of up to {longest} tokens, {whole} in "
            f"all; at best {best} cached ({best / whole:.1%})"
        )
        for order, threads in product(orders, (4, auto_num_threads())):
            cached, seconds = run(backend, work, order, threads)
            say(
                f"  {order:6} -j {threads:3} {cached:8} cached ({cached / whole:.1%}), "
                f"{cached / best:.1%} of the best, {seconds:.0f} s"
            )
    backend.close()


def say(line: str) -> None:
    """Print *line* at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
