"""Judge an essay from several sides at once, then give one verdict.

The state is forked once for each dimension; all branches share what was read up to
there, the essay included, and run at the same time. A branch writes a remark and
selects a score. Joined, they lead to a summary and a grade. A worked example stands
before each row's essay, in the same words.

A row has ``essay``. Out come ``claim`` (what the essay says), ``remark`` and ``score``
(lists, in the order of ``DIMENSIONS``), ``summary`` and ``grade``.

    sglrun batch programs/essay_judge.py sample_data/essay_judge.jsonl
"""

import sglrun as sgl

DIMENSIONS = {
    "clarity": "Is every sentence easy to understand?",
    "evidence": "Do facts, numbers or examples support the claim?",
    "structure": "Does one thought lead to the next?",
    "style": "Are the words precise and lively?",
}
SCORES = ("weak", "fair", "good", "strong")
GRADES = ("A", "B", "C", "D")

EXAMPLE = (
    "Our village needs a bus on Sundays. Two hundred people live here without a car, "
    "and the hospital is nine miles away. Last winter three of them missed an "
    "appointment. A small bus, twice a day, would cost less than one traffic light."
)


def ask_claim(essay: str) -> str:
    """Return the first question about *essay*."""
    return f"{essay}\n\nWhat does this essay claim? Answer in one sentence."


def ask_remark(name: str) -> str:
    """Return the request for a remark on one dimension."""
    return f"Now judge the {name}. {DIMENSIONS[name]} Answer in one sentence."


@sgl.function
def essay_judge(s: sgl.ProgramState, essay: str) -> None:
    """Judge one essay."""
    s += sgl.system("You are a fair teacher who judges short essays.")
    s += sgl.user(ask_claim(EXAMPLE))
    s += sgl.assistant("The village should have a bus on Sundays.")
    s += sgl.user(ask_remark("evidence"))
    s += sgl.assistant(
        "The evidence is strong: the number of people without a car and the missed "
        "appointments show why a bus is needed."
    )

    s += sgl.user(ask_claim(essay))
    s += sgl.assistant(sgl.gen("claim", max_tokens=48, stop="\n", temperature=0))

    branches = s.fork(len(DIMENSIONS))
    branches += [
        sgl.user(ask_remark(name))
        + sgl.assistant(
            f"The {name} is "
            + sgl.select("score", choices=SCORES)
            + ": "
            + sgl.gen("remark", max_tokens=48, stop="\n", temperature=0)
        )
        for name in DIMENSIONS
    ]
    branches.join()

    judged = zip(DIMENSIONS, s["score"], s["remark"], strict=True)
    s += sgl.user(
        "Your colleagues judged it so:\n"
        + "\n".join(f"- The {name} is {score}: {said}" for name, score, said in judged)
        + "\n\nSum up for the author in one sentence."
    )
    s += sgl.assistant(sgl.gen("summary", max_tokens=64, stop="\n", temperature=0))
    s += sgl.user("Which grade does the essay deserve, A, B, C or D?")
    s += sgl.assistant(sgl.select("grade", choices=GRADES))
