"""Say whether a review is positive, negative or neutral.

The smallest program: examples, one select, one digit held to a pattern that depends on
it. A select is decided by the likelihood of each choice, so the choices are words that
a reader would write, the space before them included.

A row has ``review``, in any language. Out come ``feeling`` (the word), ``sentiment``
(the label) and ``stars`` (1 to 5, as text).

    sglrun batch programs/sentiment.py sample_data/sentiment.jsonl
"""

import sglrun as sgl

# What a reader would write, the label that is kept, and the stars that go with it.
FEELINGS = {
    " happy": ("positive", "[45]"),
    " unhappy": ("negative", "[12]"),
    " neither": ("neutral", "3"),
}

EXAMPLES = (
    ("The zip broke on day two and nobody answers my emails.", " unhappy", 1),
    ("Great sound, and the battery lasts all weekend.", " happy", 5),
    ("It is a grey mug. It holds 300 ml.", " neither", 3),
    ("The instructions were clear and setup took five minutes.", " happy", 4),
    ("Paid for express shipping and waited three weeks.", " unhappy", 2),
    ("Does what it says, nothing more and nothing less.", " neither", 3),
    ("Cheap plastic. It cracked the first time I used it.", " unhappy", 1),
    ("Arrived early, fits perfectly, and my daughter loves it.", " happy", 5),
    ("The cable is one metre long.", " neither", 3),
)


@sgl.function
def sentiment(s: sgl.ProgramState, review: str) -> None:
    """Label one review."""
    s += "A shop reads its reviews and notes what each customer feels, and the stars.\n"
    for text, feeling, given in EXAMPLES:
        s += f'\n"{text}" -{feeling}, {given} of 5'
    s += f'\n"{review}" -'
    s += sgl.select("feeling", choices=FEELINGS)
    s["sentiment"], stars = FEELINGS[s["feeling"]]
    s += ", " + sgl.gen("stars", regex=stars, max_tokens=2, temperature=0)
