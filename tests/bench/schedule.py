"""The schedule: tokens that are not computed again, by the order of the rows.

    python -m tests.bench.schedule [TEXTS.jsonl [DOCUMENTS [QUESTIONS [THREADS ...]]]]

Two sets are run on the embedded engine, by the real command: a question on each text
after eight worked examples, and QUESTIONS on each of DOCUMENTS, shuffled. The texts are
the first fields of the rows of TEXTS (such as GSM8K), or made up. A best order and a
cache without end read each edge of the tree of prompts once; printed is how many prompt
tokens that leaves to be cached, how many a run had cached, and its time.
"""

import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sglrun.backends.local import store
from sglrun.backends.local.backend import LocalBackend
from sglrun.lang.prompt import Prompt
from tests.bench.measured import sglrun

PROGRAMS = {
    "few-shot": """
import json, sglrun as sgl
SHOTS = json.load(open("shots.json"))

@sgl.function
def ask(s, document, question):
    for shot in SHOTS:
        s += f"Story: {shot}\\nIn short: yes.\\n\\n"
    s += f"Story: {document}\\n{question}" + sgl.gen("a", max_tokens=8, temperature=0)
""",
    "documents": """
import sglrun as sgl

@sgl.function
def ask(s, document, question):
    s += "Answer a question about a document.\\n\\n"
    s += f"{document}\\n\\nQuestion: {question}\\nAnswer:"
    s += sgl.gen("a", max_tokens=8, temperature=0)
""",
}
SHOTS = 8
WORDS = ("ship", "salt", "tin", "wool", "glass", "harbour", "letter", "road", "bread")


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Rows of a program.

    Attributes:
        name: the program's.
        rows: its rows.
        prompts: their prompts, to know what they share.
    """

    name: str
    rows: Sequence[dict[str, str]]
    prompts: Sequence[str]


def texts(path: str | None) -> Iterator[str]:
    """Yield texts of a file, or made of words, without end."""
    if path is not None:
        for line in Path(path).read_text("utf-8").splitlines():
            yield str(next(iter(json.loads(line).values())))
    drawn = random.Random(5)  # noqa: S311 - the same at each run
    while True:
        yield " ".join(drawn.choices(WORDS, k=50)) + "."


def few_shot(source: Iterator[str], rows: int, folder: Path) -> Work:
    """Return one question on each of *rows* texts, after the same examples."""
    shots = [next(source) for _ in range(SHOTS)]
    (folder / "shots.json").write_text(json.dumps(shots), "utf-8")
    head = "".join(f"Story: {shot}\nIn short: yes.\n\n" for shot in shots)
    asked = [{"document": next(source), "question": "In short:"} for _ in range(rows)]
    prompts = [f"{head}Story: {row['document']}\n{row['question']}" for row in asked]
    return Work(name="few-shot", rows=asked, prompts=prompts)


def documents(source: Iterator[str], number: int, questions: int) -> Work:
    """Return *questions* on each of *number* documents of 5 to 15 texts, shuffled."""
    drawn = random.Random(7)  # noqa: S311
    asked = []
    for _ in range(number):
        stories = [next(source) for _ in range(drawn.randint(5, 15))]
        document = "\n".join(f"{at}. {text}" for at, text in enumerate(stories, 1))
        asked += [
            {"document": document, "question": f"Which story is about {word}?"}
            for word in drawn.sample(WORDS, questions)
        ]
    drawn.shuffle(asked)
    head = "Answer a question about a document.\n\n"
    prompts = [
        f"{head}{row['document']}\n\nQuestion: {row['question']}\nAnswer:"
        for row in asked
    ]
    return Work(name="documents", rows=asked, prompts=prompts)


def optimum(backend: LocalBackend, work: Work) -> tuple[int, int, int]:
    """Return the tokens of all prompts, those that need not be read, and one prompt's.

    The last token of a prompt is always computed: its logits are what is asked for.
    """
    heads: set[int] = set()
    whole = longest = 0
    for text in work.prompts:
        tokens, chained = backend._read(Prompt(text=text), new=8).tokens, 0
        whole += len(tokens)
        longest = max(longest, len(tokens))
        for token in tokens:
            chained = hash((chained, token))
            heads.add(chained)
    return whole, whole - len(heads), longest


def run(work: Work, folder: Path, *options: str) -> tuple[int, float]:
    """Return the tokens that a run had cached, and its seconds."""
    (folder / "program.py").write_text(PROGRAMS[work.name], "utf-8")
    (folder / "in.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in work.rows), "utf-8"
    )
    words = sglrun("program.py", "in.jsonl", "-o", "out", "--overwrite", *options)
    subprocess.run(words, cwd=folder, check=True)
    manifest = json.loads((folder / "out.run.json").read_text("utf-8"))
    last = manifest["about"]["last run"]
    sent = last["prefix"]["usage"]
    read_before = sent["prompt_tokens"] - sent["cached_tokens"] if sent else 0
    return last["usage"]["cached_tokens"] - read_before, last["seconds"]


def main() -> None:
    """Measure and print."""
    path, *numbers = sys.argv[1:] or [""]
    number, questions, *threads = map(int, numbers or ["24", "6"])
    backend = LocalBackend(store.find_model())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = texts(path or None)
        works = [
            few_shot(source, number * questions // 2, folder),
            documents(source, number, questions),
        ]
        for work in works:
            whole, best, longest = optimum(backend, work)
            print(  # noqa: T201 - a benchmark's result
                f"{work.name}: {len(work.rows)} rows of up to {longest} tokens, "
                f"{whole} in all; at best {best} cached ({best / whole:.1%})"
            )
            for order in ("input", "prefix"):
                for most in map(str, threads or [4, 96]):
                    options = ("--schedule", order, "-j", most)
                    cached, seconds = run(work, folder, *options)
                    print(  # noqa: T201
                        f"  {order:6} -j {most:3} {cached:8} cached "
                        f"({cached / whole:.1%}), {cached / best:.1%} of the best, "
                        f"{seconds:.0f} s",
                        flush=True,
                    )
    backend.close()


if __name__ == "__main__":
    main()
