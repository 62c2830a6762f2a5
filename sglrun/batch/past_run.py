"""A past run: what a manifest tells of it, as data."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sglrun.backends.base import Usage
from sglrun.batch.identity import Identity
from sglrun.batch.manifest import Manifest
from sglrun.batch.timeline import Times


@dataclass(frozen=True, slots=True, kw_only=True)
class PastPrefix:
    """What became of the prefix that all rows share.

    Attributes:
        tokens: its tokens.
        ended_by: what comes after it, in words.
        where: the author's line that brings it.
        usage: what sending it first cost; ``None`` if it was not sent.
    """

    tokens: int = 0
    ended_by: str = ""
    where: str | None = None
    usage: Usage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRun:
    """What came of the last run of a command, which earlier ones may have begun.

    Attributes:
        ok: rows that gave a value.
        failed: rows that gave an error.
        resumed: rows that were finished before.
        seconds: from its first row to its last.
        ended: when, as ISO 8601.
        usage: what its rows cost.
        prefix: what they share.
        predicted_cached_tokens: tokens that the prefix should have saved.
        saved_tokens: tokens that were not computed again, less those of the prefix.
        times: how many rows ended when.
    """

    ok: int = 0
    failed: int = 0
    resumed: int = 0
    seconds: float = 0.0
    ended: str = ""
    usage: Usage = field(default_factory=Usage)
    prefix: PastPrefix = field(default_factory=PastPrefix)
    predicted_cached_tokens: int = 0
    saved_tokens: int = 0
    times: Times = field(default_factory=Times)


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun:
    """A run, by its manifest.

    Attributes:
        complete: its results are complete.
        alive: the process that wrote them is there; known on its own machine only.
        identity: what its results have in common.
        pid: that process.
        started: when it began, as ISO 8601.
        rows: rows of the complete results.
        command: what was typed.
        versions: of what was used, by name.
        url: the server's address.
        server: what answered there, as it calls itself.
        input: where its rows came from.
        limit: how many of them were asked for at most.
        prices: what a million tokens cost: prompt, completion, cached.
        last: what came of its last run, where that ended.
    """

    complete: bool
    alive: bool
    identity: Identity
    pid: int
    started: str
    rows: int
    command: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    url: str | None = None
    server: str | None = None
    input: str | None = None
    limit: int | None = None
    prices: Mapping[str, float] | None = None
    last: LastRun | None = None


def past_run(manifest: Manifest) -> PastRun:
    """Return what *manifest* tells, as far as it was written by this version."""
    about = manifest.about
    versions, prices, limit = (about.get(k) for k in ("versions", "prices", "limit"))
    answered = about.get("answered")
    return PastRun(
        complete=manifest.state == "complete",
        alive=manifest.state == "running" and _is_alive(manifest.pid),
        identity=manifest.identity,
        pid=manifest.pid,
        started=manifest.started,
        rows=manifest.rows,
        command=str(about.get("command") or ""),
        versions=versions if isinstance(versions, Mapping) else {},
        url=_text(about.get("url")),
        server=_text(answered.get("server")) if isinstance(answered, Mapping) else None,
        input=_text(about.get("input")),
        limit=limit if isinstance(limit, int) else None,
        prices=_prices(prices),
        last=_last_run(about.get("last run")),
    )


def _last_run(told: Any) -> LastRun | None:
    try:
        prefix, times = told["prefix"], told["times"]
        sent = prefix["usage"]
        return LastRun(
            ok=int(told["ok"]),
            failed=int(told["failed"]),
            resumed=int(told["resumed"]),
            seconds=float(told["seconds"]),
            ended=str(told["ended"]),
            usage=Usage(**told["usage"]),
            prefix=PastPrefix(
                tokens=int(prefix["tokens"]),
                ended_by=str(prefix["ended_by"]),
                where=_text(prefix["where"]),
                usage=None if sent is None else Usage(**sent),
            ),
            predicted_cached_tokens=int(told["predicted_cached_tokens"]),
            saved_tokens=int(told["saved_tokens"]),
            times=Times(
                span_s=float(times["span_s"]),
                ok=tuple(map(int, times["ok"])),
                failed=tuple(map(int, times["failed"])),
            ),
        )
    except (KeyError, TypeError, ValueError):
        return None


def _prices(told: object) -> Mapping[str, float] | None:
    if not isinstance(told, Mapping):
        return None
    return {str(k): float(v) for k, v in told.items() if v is not None}


def _text(told: object) -> str | None:
    return told if isinstance(told, str) and told else None


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # another user's
        return True
    return True
