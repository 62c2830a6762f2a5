"""Answer short factual questions in the manner of worked examples.

Plain completion, without roles: every prompt begins with the same examples, which the
model reads once for all rows. An answer ends with its line.

A row has ``question``. Out comes ``answer``.

    sglrun batch programs/few_shot_qa.py sample_data/few_shot_qa.jsonl
"""

import sglrun as sgl

EXAMPLES = (
    ("What is the capital of Italy?", "Rome"),
    ("Who wrote the play Hamlet?", "William Shakespeare"),
    ("How many days are there in a week?", "Seven"),
    ("Which planet is the largest in our solar system?", "Jupiter"),
    ("What gas do plants take in from the air?", "Carbon dioxide"),
    ("What is the opposite of cold?", "Hot"),
    ("Which language is spoken in Brazil?", "Portuguese"),
    ("What do bees make?", "Honey"),
    ("In which city does the Eiffel Tower stand?", "Paris"),
    ("What is frozen water called?", "Ice"),
    ("Which animal is known as the king of the jungle?", "The lion"),
    ("What is the chemical symbol for gold?", "Au"),
    ("Who painted the Mona Lisa?", "Leonardo da Vinci"),
    ("How many sides does a triangle have?", "Three"),
    ("Which ocean lies between Europe and America?", "The Atlantic Ocean"),
    ("What do you call a baby dog?", "A puppy"),
)


@sgl.function
def few_shot_qa(s: sgl.ProgramState, question: str) -> None:
    """Answer one question."""
    s += "Short and correct answers to questions of general knowledge.\n\n"
    for asked, answer in EXAMPLES:
        s += f"Question: {asked}\nAnswer:\n{answer}\n\n"
    s += f"Question: {question}\nAnswer:\n"
    s += sgl.gen("answer", max_tokens=24, stop="\n", temperature=0)
