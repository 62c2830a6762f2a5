"""``sglrun batch --dry-run``: what a run would ask of a model, and cost."""

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from itertools import islice

from sglrun.batch.estimate import Estimate, estimate
from sglrun.batch.rows import read_rows
from sglrun.cli.streams import Streams
from sglrun.cli.tokens import token_counter
from sglrun.config import RunConfig
from sglrun.display.wording import of_many, share
from sglrun.interpreter.program import Program
from sglrun.interpreter.sglang.lazy_backend import LazyBackend

_LABEL = 12


def write_estimate(
    program: Program,
    inputs: str,
    config: RunConfig,
    streams: Streams,
    offered: LazyBackend,
) -> None:
    """Write what running *program* over *inputs* would ask; nothing is sent.

    People get lines; away from a terminal stdout gets one JSON object.

    Raises:
        SglrunError: the rows cannot be read, or the named backend cannot be opened.
    """
    with closing(offered), read_rows(inputs) as reader:
        counter = token_counter(config, offered)
        found = estimate(
            program,
            islice(reader, config.rows.limit),
            template=counter.template,
            sampling=config.sampling,
            count=counter.count,
            sends_prefix=config.speed.precache and counter.holds_prefixes,
        )
        name = counter.name
    cost = None if config.prices is None else config.prices.cost(found.usage)
    if streams.out_is_terminal:
        lines = [f"{label:<{_LABEL}}{fact}" for label, fact in facts(found, name, cost)]
        text = "\n".join(lines)
    else:
        text = json.dumps({**asdict(found), "counted_by": name, "most_cost": cost})
    streams.write(f"{text}\n".encode())


def facts(found: Estimate, name: str, cost: float | None) -> Iterator[tuple[str, str]]:
    """Return an estimate for people: labels and facts."""
    rows = of_many(found.rows, "row")
    bad = f", {found.bad_rows:,} of them bad" if found.bad_rows else ""
    seen = of_many(found.traced_rows, "row")
    yield (
        "rows",
        f"{rows}{bad}"
        + (f" (from the first {seen})" if found.traced_rows < found.rows else ""),
    )
    first = " and one for the prefix" if found.sent_tokens else ""
    yield "requests", f"{found.requests:,}{first}"
    yield "prompt", f"at most {of_many(found.prompt_tokens, 'token')} ({name})"
    for label, saved in (
        ("prefix", found.prefix_tokens),
        ("shared", found.shared_tokens),
    ):
        percent = share(saved, found.prompt_tokens)
        yield (
            label,
            f"{of_many(saved, 'token')} of these, {percent}, {_SAVED_BY[label]}",
        )
    yield "completion", f"at most {of_many(found.completion_tokens, 'token')}"
    if cost is not None:
        yield "cost", f"at most {cost:,.4f}"
    if found.decided_by is not None:
        yield (
            "note",
            f"{found.decided_by} decides by what is unknown; one way is counted",
        )


_SAVED_BY = {
    "prefix": "need not be read again with the shared prefix cached",
    "shared": "are text that an earlier prompt has, too",
}
