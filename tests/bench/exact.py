"""The embedded engine's exactness: the same rows, asked in other company.

    python -m tests.bench.exact [TOKENS [ROWS [CELLS]]]

Half of ROWS (by default 24) prompts of about TOKENS (by default 1,300) tokens are
answered greedily, half with a seed: one after the other, then many at once, in another
order, with a full cache and with an empty one, in a context of CELLS (by default
8,192). They are read as if all began with TOKENS alike: from 1,024 on in another way.
Printed is how many texts and how many log-probabilities differ from the first time,
and what moving cells took. With ``--no-exact`` the other mode is measured.
"""

import random
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from sglrun.backends.base import Request
from sglrun.backends.local import store
from sglrun.backends.local.backend import LocalBackend
from sglrun.backends.local.context_settings import ContextSettings
from sglrun.lang.prompt import Prompt
from sglrun.lang.sampling import DEFAULTS, SamplingParams

SENTENCE = (
    "The harbour of {} keeps a list of ships, their masters and what they carry. "
)
DOCUMENTS = 3
NEW = 16

Answer = tuple[str, object]


def ask(backend: LocalBackend, number: int, sentences: int) -> Answer:
    """Return the text and the scores of one row."""
    shown = SENTENCE.format(number % DOCUMENTS) * sentences
    sampling = SamplingParams.of(
        max_new_tokens=NEW,
        temperature=0 if number % 2 else 0.8,
        seed=number,
        ignore_eos=True,
        return_logprob=True,
    ).over(DEFAULTS)
    prompt = Prompt(text=f"{shown}Row {number}: the ship came late. In {number} they")
    sample = backend.generate(Request(prompt=prompt, sampling=sampling)).samples[0]
    return sample.text, sample.meta_info["output_token_logprobs"]


def main() -> None:
    """Ask in every company and print."""
    numbers = [int(word) for word in sys.argv[1:] if word.isdigit()]
    tokens, count, cells = (*numbers, *(1300, 24, 8192)[len(numbers) :])
    settings = ContextSettings(cells=cells, exact="--no-exact" not in sys.argv)
    backend = LocalBackend(store.find_model(), settings=settings)
    sentences = tokens // backend.count_tokens(SENTENCE)
    backend._runtime.engine.expect(tokens)
    context = backend._runtime.engine._context
    moved: list[float] = []
    compact = context.compact

    def timed() -> None:
        began = time.perf_counter()
        compact()
        moved.append(time.perf_counter() - began)

    context.compact = timed  # type: ignore[method-assign]
    first: dict[int, Answer] = {}
    order = random.Random(5)  # noqa: S311 - no secret
    for at_once, flushes in ((1, True), (8, False), (count, False), (5, True)):
        rows = list(range(count))
        if first:
            order.shuffle(rows)
        if flushes:
            backend.flush_cache()
        moved.clear()
        began = time.perf_counter()
        with ThreadPoolExecutor(at_once) as pool:
            answers = pool.map(lambda row: ask(backend, row, sentences), rows)
            found = dict(zip(rows, answers, strict=True))
        spent = time.perf_counter() - began
        first = first or found
        texts = sum(found[row][0] != first[row][0] for row in rows)
        scores = sum(found[row] != first[row] for row in rows)
        sys.stdout.write(
            f"{at_once} at once, {'empty' if flushes else 'full'} cache: {texts} texts "
            f"and {scores} scores of {count} differ; {spent:.1f} s, of these "
            f"{sum(moved):.2f} s to move cells {len(moved)} times\n"
        )
        sys.stdout.flush()
    backend.close()


if __name__ == "__main__":
    main()
