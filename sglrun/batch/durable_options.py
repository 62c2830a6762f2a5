"""The options of a durable output."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sglrun.backends.secrets import Secrets
from sglrun.batch.identity import Identity
from sglrun.batch.results import Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class DurableOptions:
    """What a durable output is told.

    Attributes:
        identity: what results of this run must have in common.
        layout: how results are rendered.
        overwrite: begin anew, whatever is there.
        input_identity: device and file number of the input.
        about: what else the manifest is to say.
        secrets: texts that must appear nowhere; an answer with one is not kept.
        replay: keep the answers of rows that are not finished, and use them.
        on_note: told what a user should know.
    """

    identity: Identity
    layout: Layout = "record"
    overwrite: bool = False
    input_identity: tuple[int, int] | None = None
    about: Mapping[str, object] = field(default_factory=dict)
    secrets: Secrets = field(default_factory=Secrets)
    replay: bool = True
    on_note: Callable[[str], None] = lambda _: None
