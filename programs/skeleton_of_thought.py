"""Write an answer by its skeleton: points first, then all of them at the same time.

The model lists three points, held to the form of a list; the state is forked once for
each, and the branches expand them side by side. A long answer takes the time of its
longest part. A worked example stands before each row's question.

A row has ``question``. Out come ``skeleton`` (the list as written), ``paragraph`` (one
for each point) and ``answer`` (all of it, as Markdown).

    sglrun batch programs/skeleton_of_thought.py sample_data/skeleton_of_thought.jsonl
"""

import sglrun as sgl

# From two to seven words, so that even a poor list can be read back.
POINT = r"[\w']{1,16}( [\w']{1,16}){1,6}"
SKELETON = rf"1\. {POINT}\n2\. {POINT}\n3\. {POINT}"


def ask_points(question: str) -> str:
    """Return the request for a skeleton."""
    return f"{question}\n\nList three different points, a few words each."


def ask_paragraph(point: str) -> str:
    """Return the request to expand one point."""
    return f"Write two sentences about this point: {point}"


@sgl.function
def skeleton_of_thought(s: sgl.ProgramState, question: str) -> None:
    """Answer one question in three points."""
    s += sgl.system(
        "You explain things to curious readers. First you list three points, then you "
        "write a short paragraph about each."
    )
    s += sgl.user(ask_points("Why do people drink tea?"))
    s += sgl.assistant(
        "1. Tea warms the body\n2. It keeps people awake\n3. Friends meet over a cup"
    )
    s += sgl.user(ask_paragraph("It keeps people awake"))
    s += sgl.assistant(
        "Tea holds caffeine, which makes the mind alert. Many students drink a cup "
        "before they begin to read."
    )

    s += sgl.user(ask_paragraph("Friends meet over a cup"))
    s += sgl.assistant(
        "A pot of tea gives people a reason to sit down together. In many countries a "
        "guest is offered a cup at the door."
    )

    s += sgl.user(ask_points(question))
    s += sgl.assistant(
        sgl.gen(
            "skeleton",
            regex=SKELETON,
            max_tokens=80,
            temperature=0,
            frequency_penalty=0.3,
        )
    )
    points = [line.partition(" ")[2] for line in s["skeleton"].splitlines()]

    branches = s.fork(len(points))
    branches += [
        sgl.user(ask_paragraph(point))
        + sgl.assistant(
            sgl.gen(
                "paragraph",
                max_tokens=80,
                stop="\n",
                temperature=0,
                frequency_penalty=0.3,
            )
        )
        for point in points
    ]
    branches.join()

    parts = zip(points, s["paragraph"], strict=True)
    s["answer"] = "\n\n".join(f"**{point}.** {text}" for point, text in parts)
