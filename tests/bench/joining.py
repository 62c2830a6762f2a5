"""The joining of branches: what it saves, and how far what follows differs.

    python -m tests.bench.joining [PROMPTS [SENTENCES]]

For each of PROMPTS (by default 20), four branches of SENTENCES (by default 6) facts
each are read after a prefix, joined, and gone on from greedily: from what was computed
of each, and from their text. Printed are the tokens and the time of both, how often
the first token and all 16 agree, how often the text holds the fact asked for, and the
divergence of the first token's likeliest 50.
"""

import math
import sys
import time

from sglrun.backends.base import Completion, Request
from sglrun.backends.local import store
from sglrun.backends.local.backend import LocalBackend
from sglrun.lang.prompt import Join, Prompt
from sglrun.lang.sampling import DEFAULTS, SamplingParams

TOWNS = ("Arken", "Belm", "Corva", "Dunmore", "Esk", "Falk", "Grin", "Holm")
TRADES = ("baker", "smith", "pilot", "mayor")
NAMES = ("Mira Toll", "Jon Hask", "Ada Quill", "Per Lund", "Ida Rook", "Sam Pike")
BRANCHES = 4


def prompt_of(number: int, sentences: int) -> tuple[Prompt, str]:
    """Return a prompt with its branches noted, and the name that answers it."""
    text = f"Facts about towns, list {number}.\n"
    start, ends, asked = len(text), [], ("", "", "")
    for branch in range(BRANCHES):
        for line in range(sentences):
            at = number * 7 + branch * sentences + line
            town, trade = TOWNS[at % len(TOWNS)], TRADES[branch]
            name = NAMES[(at * 5 + branch) % len(NAMES)]
            text += f"The {trade} of {town} is {name}, who came in {1900 + at}.\n"
            if (branch, line) == (number % BRANCHES, sentences // 2):
                asked = (trade, town, name)
        ends.append(len(text))
    text += f"Question: who is the {asked[0]} of {asked[1]}?\nAnswer: it is"
    return Prompt(text=text, joins=(Join(start, tuple(ends)),)), asked[2]


def go_on(backend: LocalBackend, prompt: Prompt) -> tuple[Completion, float]:
    """Return what follows *prompt*, and how long it took."""
    sampling = SamplingParams.of(
        max_new_tokens=16,
        temperature=0,
        ignore_eos=True,
        return_logprob=True,
        top_logprobs_num=50,
    ).over(DEFAULTS)
    began = time.perf_counter()
    completion = backend.generate(Request(prompt=prompt, sampling=sampling))
    return completion, time.perf_counter() - began


def first_of(completion: Completion) -> dict[int, float]:
    """Return the log-probabilities of the likeliest first tokens."""
    told = completion.samples[0].meta_info["output_top_logprobs"]
    assert isinstance(told, list)
    return {token: score for score, token, _ in told[0]}


def divergence(before: dict[int, float], after: dict[int, float]) -> float:
    """Return the Kullback-Leibler divergence over the tokens that both name."""
    return sum(
        math.exp(score) * (score - after[token])
        for token, score in before.items()
        if token in after
    )


def main() -> None:
    """Measure and print."""
    count, sentences = (*map(int, sys.argv[1:]), *(20, 6)[len(sys.argv) - 1 :])
    backend = LocalBackend(store.find_model())
    read = {"text": 0, "joined": 0}
    spent = {"text": 0.0, "joined": 0.0}
    right = {"text": 0, "joined": 0}
    firsts = alls = 0
    diverged = []
    for number in range(count):
        prompt, name = prompt_of(number, sentences)
        join = prompt.joins[0]
        base = prompt.text[: join.start]
        starts = (join.start, *join.ends[:-1])
        backend.flush_cache()
        for begin, end in zip(starts, join.ends, strict=True):
            backend.cache_prefix(Prompt(text=base + prompt.text[begin:end]))
        told = {}
        for way, asked in (("joined", prompt), ("text", Prompt(text=prompt.text))):
            told[way], took = go_on(backend, asked)
            usage = told[way].usage
            read[way] += usage.prompt_tokens - usage.cached_tokens
            spent[way] += took
            right[way] += name in told[way].samples[0].text
        first = {way: first_of(completion) for way, completion in told.items()}
        best = {way: max(found, key=found.__getitem__) for way, found in first.items()}
        firsts += best["text"] == best["joined"]
        alls += told["text"].samples[0].text == told["joined"].samples[0].text
        diverged.append(divergence(first["text"], first["joined"]))
    backend.close()
    sys.stdout.write(
        f"{count} prompts, {BRANCHES} branches each: computed before going on "
        f"{read['joined']} tokens joined, {read['text']} by text; "
        f"{spent['joined']:.1f} s and {spent['text']:.1f} s; first token equal "
        f"{firsts}, all 16 equal {alls}; right name {right['joined']} joined, "
        f"{right['text']} by text; divergence of the first token "
        f"{sum(diverged) / count:.3f} in the mean, {max(diverged):.3f} at most\n"
    )


if __name__ == "__main__":
    main()
