"""What answers, in words: for a user before a run, and for whoever reads it later."""

from collections.abc import Iterator, Mapping
from dataclasses import fields

from sglrun.backends.base import Backend, Capabilities

# Turns are sent to these as turns.
_ITS_OWN = dict.fromkeys(("openai", "anthropic"), "the server's own")


def described(backend: Backend) -> Mapping[str, str]:
    """Return what *backend* is and what it can do; asks nothing."""
    can = tuple(_powers(backend.capabilities, held=True))
    cannot = (
        *_powers(backend.capabilities, held=False),
        *sorted(backend.capabilities.unsupported_sampling),
    )
    return {
        "speaks": backend.kind,
        **({"server": backend.server} if backend.server else {}),
        "model": backend.model,
        "template": _ITS_OWN.get(backend.kind, backend.chat_template.name),
        "can": ", ".join(can) or "only text",
        **({"cannot": ", ".join(cannot)} if cannot else {}),
    }


def _powers(capabilities: Capabilities, *, held: bool) -> Iterator[str]:
    for power in fields(capabilities):
        if getattr(capabilities, power.name) is held:
            yield power.name.replace("_", " ")
