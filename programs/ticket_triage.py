"""Sort the tickets of a shop and draft the first answer.

Three questions about one ticket, after one system prompt that all rows share: the first
two are asked in branches, at the same time, so that no answer colours the next. A
select is decided by the likelihood of each choice, so the choices are sentences that
fit as an answer; the tables turn them into the labels that are kept. The reply follows
the manner of a few examples.

A row has ``ticket``, in any language. Out come ``team``, ``urgency`` and ``reply``.

    sglrun batch programs/ticket_triage.py sample_data/ticket_triage.jsonl
"""

import sglrun as sgl

HOUSE_RULES = """\
You help the customers of a small online shop.

How we answer:
- Be friendly, and write one or two sentences.
- Never promise a date or a refund.
- Never ask for a password or a card number.
- Where you cannot know the answer, say that a colleague will look into it today.
- Write in the language of the customer."""

TEAMS = {
    "This is about a payment or an invoice": "billing",
    "This is about a parcel": "delivery",
    "This is about the app not working": "technical",
    "This is about an account or a password": "account",
}
URGENCIES = {
    "Yes, it can wait until next week": "normal",
    "No, it is an emergency": "high",
}

REPLIES = {
    "The zip of the bag I ordered is broken.": "Thank you for telling us about the "
    "broken zip. A colleague will look at your order today and write to you.",
    "Can I still change the colour of my order?": "Thank you for asking about the "
    "colour. A colleague will check today whether your order can still be changed.",
    "Your site asks me for a code that never comes.": "Thank you for telling us that "
    "the code does not arrive. A colleague will look into it today and help you.",
}


@sgl.function
def ticket_triage(s: sgl.ProgramState, ticket: str) -> None:
    """Sort one ticket."""
    s += sgl.system(HOUSE_RULES)

    team, urgency = s.fork(2)
    team += sgl.user(f"{ticket}\n\nWhat is this about?")
    team += sgl.assistant(sgl.select("answer", choices=TEAMS))
    urgency += sgl.user(f"{ticket}\n\nCan this wait?")
    urgency += sgl.assistant(sgl.select("answer", choices=URGENCIES))
    s["team"] = TEAMS[team["answer"]]
    s["urgency"] = URGENCIES[urgency["answer"]]

    for example, reply in REPLIES.items():
        s += sgl.user(f"{example}\n\nAnswer the customer in one or two sentences.")
        s += sgl.assistant(reply)
    s += sgl.user(f"{ticket}\n\nAnswer the customer in one or two sentences.")
    s += sgl.assistant(sgl.gen("reply", max_tokens=64, stop="\n", temperature=0))
