"""Hold a conversation: one answer to each message of a user, in order.

Each answer is generated with everything said before it, so a backend that keeps
prefixes reads every message only once.

A row has ``messages``, the list of what the user says. Out come ``reply_1``,
``reply_2`` and so on, one for each message.

    sglrun batch programs/chat_turns.py sample_data/chat_turns.jsonl
"""

from collections.abc import Sequence

import sglrun as sgl

# A short exchange shows length and tone better than a rule does.
OPENING = (
    ("Hello! Why do leaves fall in autumn?", "A tree drops its leaves to save water."),
    ("Do they grow back?", "Yes, new leaves grow in spring, when the days are warm."),
)


@sgl.function
def chat_turns(s: sgl.ProgramState, messages: Sequence[str]) -> None:
    """Answer every message of one conversation."""
    s += sgl.system("You are a friendly companion. Answer in one short sentence.")
    for asked, answered in OPENING:
        s += sgl.user(asked)
        s += sgl.assistant(answered)
    for number, message in enumerate(messages, start=1):
        s += sgl.user(message)
        s += sgl.assistant(
            sgl.gen(
                f"reply_{number}",
                max_tokens=60,
                stop="\n",
                temperature=0,
                frequency_penalty=0.3,
            )
        )
