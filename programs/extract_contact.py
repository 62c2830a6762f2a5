"""Read contact details out of a message, as data.

The generation is held to a JSON schema that is made for each message: an address or a
number is one of those that stand in the message, so it can be missed but never made up;
a name is free text. ``null`` stands for what a message does not tell.

A row has ``message``. Out comes ``contact``, an object with ``email``, ``phone``,
``name`` and ``company``.

    sglrun batch programs/extract_contact.py sample_data/extract_contact.jsonl
"""

import json
import re
from dataclasses import asdict, dataclass

import sglrun as sgl

EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+", re.ASCII)
PHONE = re.compile(r"\+?\d[\d ]{6,}\d")
TEXT = {"type": ["string", "null"], "maxLength": 40}


@dataclass(frozen=True, kw_only=True)
class Contact:
    """Who wrote a message, as far as it tells."""

    email: str | None = None
    phone: str | None = None
    name: str | None = None
    company: str | None = None


EXAMPLES = {
    "Hi, this is Paula Reyes from Northwind Traders. Could you call me back about the "
    "invoice? My number is +1 555 0142.": Contact(
        phone="+1 555 0142", name="Paula Reyes", company="Northwind Traders"
    ),
    "When do you open on Sundays?": Contact(),
    "Please send the offer to office@brightworks.example. Best regards, Li Wei, "
    "Brightworks Ltd, 020 7946 0018": Contact(
        email="office@brightworks.example",
        phone="020 7946 0018",
        name="Li Wei",
        company="Brightworks Ltd",
    ),
    "The door is still broken. Ring 0114 496 0007 please.": Contact(
        phone="0114 496 0007"
    ),
}


def schema_for(message: str) -> dict[str, object]:
    """Return the schema of the contacts that *message* can hold."""
    properties = {
        "email": {"enum": [*EMAIL.findall(message), None]},
        "phone": {"enum": [*PHONE.findall(message), None]},
        "name": TEXT,
        "company": TEXT,
    }
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


@sgl.function
def extract_contact(s: sgl.ProgramState, message: str) -> None:
    """Extract the contact details of one message."""
    s += sgl.system(
        "You copy contact details out of messages into JSON. Copy letter by letter; "
        "null stands for what a message does not tell."
    )
    for text, contact in EXAMPLES.items():
        s += sgl.user(text)
        s += sgl.assistant(json.dumps(asdict(contact), ensure_ascii=False))
    s += sgl.user(message)
    s += sgl.assistant(
        sgl.gen(
            "contact",
            json_schema=schema_for(message),
            typed=True,
            max_tokens=160,
            temperature=0,
        )
    )
