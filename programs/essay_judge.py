"""Judge an essay from several sides at once, then give one verdict.

The state is forked once for each dimension; all branches share what was read up to
there, the essay included, and run at the same time. A branch writes a remark and
selects a score. Joined, they lead to a piece of advice and a verdict. A select is
decided by the likelihood of each choice, so the choices are whole sentences.

A row has ``essay``. Out come ``claim`` (what the essay says), ``remark`` and ``score``
(lists, in the order of ``DIMENSIONS``), ``advice`` and ``verdict``.

    sglrun batch programs/essay_judge.py sample_data/essay_judge.jsonl
"""

import sglrun as sgl

DIMENSIONS = {
    "clarity": "every sentence is easy to understand",
    "evidence": "facts, numbers or examples support the claim",
    "structure": "one thought leads to the next",
    "style": "the words are precise and lively",
}
SCORES = ("excellent", "good", "fair", "poor")


@sgl.function
def essay_judge(s: sgl.ProgramState, essay: str) -> None:
    """Judge one essay."""
    s += sgl.system(
        "You are a fair teacher who judges short essays. A good essay has:\n"
        + "\n".join(f"- {name}: {means}." for name, means in DIMENSIONS.items())
    )
    s += sgl.user(f"{essay}\n\nWhat does this essay claim? Answer in one sentence.")
    s += sgl.assistant(sgl.gen("claim", max_tokens=60, stop="\n", temperature=0))

    branches = s.fork(len(DIMENSIONS))
    branches += [
        sgl.user(f"What is weak about the {name}? Answer in one sentence.")
        + sgl.assistant(sgl.gen("remark", max_tokens=60, stop="\n", temperature=0))
        + sgl.user(f"How good is the {name}?")
        + sgl.assistant(
            sgl.select("score", choices=[f"The {name} is {score}" for score in SCORES])
        )
        for name in DIMENSIONS
    ]
    branches.join()

    noted = zip(s["score"], s["remark"], strict=True)
    s += sgl.user(
        "Other teachers have noted:\n"
        + "\n".join(f"- {score}. {remark}" for score, remark in noted)
        + "\n\nWhat should the author do better? Answer in one sentence."
    )
    s += sgl.assistant(sgl.gen("advice", max_tokens=60, stop="\n", temperature=0))
    s += sgl.user("How good is the essay, all in all?")
    s += sgl.assistant(
        sgl.select("verdict", choices=[f"The essay is {score}" for score in SCORES])
    )
