"""A choice that a server writes as JSON, held to a schema of the options."""

import json
from collections.abc import Sequence

from sglrun.backends.reply import an_optional_object
from sglrun.errors import ResponseError

_KEY = "choice"
_MARKUP_TOKENS = 32


def enum_schema(choices: Sequence[str]) -> object:
    """Return a schema of an object that names one of *choices*."""
    return {
        "type": "object",
        "properties": {_KEY: {"type": "string", "enum": list(choices)}},
        "required": [_KEY],
        "additionalProperties": False,
    }


def enum_limit(choices: Sequence[str]) -> int:
    """Return a limit of tokens that any of *choices* fits in, and JSON around it."""
    # A token has at least a byte.
    longest = max(len(choice.encode("utf-8", "replace")) for choice in choices)
    return longest + _MARKUP_TOKENS


def parse_enum(text: str) -> str:
    """Return the option that *text* names; empty where it names none."""
    try:
        return str(an_optional_object(json.loads(text)).get(_KEY))
    except ValueError:
        return ""


def check_chosen(chosen: str, written: str, choices: Sequence[str]) -> str:
    """Return *chosen*, which a server wrote as *written*, if it is an option.

    Raises:
        ResponseError: it is none.
    """
    if chosen in choices:
        return chosen
    error = ResponseError(
        f"the server was to write one of {list(choices)!r} and wrote "
        f"{written[:200]!r}; it ignores the constraint"
    )
    error.retryable = False
    raise error
