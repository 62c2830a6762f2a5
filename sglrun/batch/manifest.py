"""The manifest: what a results file is made of, in a file beside it."""

import base64
import datetime as dt
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Literal

from sglrun.backends.secrets import Secrets
from sglrun.batch.identity import Identity, identity_changes
from sglrun.batch.journal import sync_folder
from sglrun.batch.run_files import new_beside
from sglrun.errors import ResultsError

_LAYOUT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What is known about a run.

    Attributes:
        state: whether its results are complete.
        identity: what results of this run have in common.
        pid: the process that wrote this.
        started: when that began, as ISO 8601.
        about: whatever else a reader may want: versions, command, counts, times.
        rows: rows of the complete results.
        size_bytes: size of the complete results.
        sha256: checksum of the complete results.
        keys: the digests of the complete results' rows, in order, joined.
        layout: the version of this list.
    """

    state: Literal["running", "complete"]
    identity: Identity
    pid: int = field(default_factory=os.getpid)
    started: str = ""
    about: Mapping[str, object] = field(default_factory=dict)
    rows: int = 0
    size_bytes: int = 0
    sha256: str = ""
    keys: bytes = b""
    layout: int = _LAYOUT


def now() -> str:
    """Return the time now, as ISO 8601."""
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")


def read_manifest(path: Path) -> Manifest | None:
    """Return the manifest at *path*; ``None`` if there is none that can be read."""
    try:
        content = path.read_bytes()
        end = content.rindex(_KEYS)
        found = json.loads(content[:end] + b"}")
        facts = {name: found[name] for name in _FIELDS}
        encoded = memoryview(content)[end + len(_KEYS) : -len(_END)]
        manifest = Manifest(**facts, keys=base64.b64decode(encoded, validate=True))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return manifest if manifest.layout == _LAYOUT else None


def of_same_run(before: Manifest | None, identity: Identity, place: Path) -> Manifest:
    """Return *before*, the manifest of what lies at *place*.

    Raises:
        ResultsError: there is none, or it is not of a run of *identity*.
    """
    if before is None:
        raise ResultsError(
            f"{str(place)!r} exists and is not from this run; choose another name, "
            "or give --overwrite to replace it"
        )
    changes = identity_changes(before.identity, identity)
    if changes:
        raise ResultsError(
            f"{str(place)!r} is from another run ({'; '.join(changes)}); choose "
            "another name, or give --overwrite to replace it"
        )
    return before


def write_manifest(
    path: Path, manifest: Manifest, *, secrets: Secrets | None = None
) -> None:
    """Write *manifest* as a whole; waits until the disk has it.

    Args:
        path: the file.
        manifest: what it is to hold.
        secrets: what its ``about`` must not have; the rest is compared with that of
            later runs, and stays as it is.

    Raises:
        OSError: it cannot be written; what was there before still is.
    """
    facts = {name: getattr(manifest, name) for name in _FIELDS}
    if secrets is not None:
        about = json.dumps(manifest.about, ensure_ascii=False, default=str)
        facts["about"] = json.loads(secrets.redacted_json(about))
    text = json.dumps(facts, indent=1, ensure_ascii=False, default=str)
    new = new_beside(path)
    try:
        _write(new, text, manifest.keys)
        new.rename(path)
    except OSError:
        new.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def _write(new: Path, text: str, keys: bytes) -> None:
    with new.open("wb") as file:
        file.write(text.removesuffix("\n}").encode("utf-8", "backslashreplace"))
        file.write(_KEYS)
        # Bit by bit: there may be millions of rows.
        for place in range(0, len(keys), _AT_ONCE):
            file.write(base64.b64encode(keys[place : place + _AT_ONCE]))
        file.write(_END)
        file.flush()
        os.fsync(file.fileno())


# The digests stand last, where they can be told from the rest without parsing them.
_KEYS, _END = b',\n "keys": "', b'"\n}\n'
_AT_ONCE = 3 << 14
_FIELDS = tuple(item.name for item in fields(Manifest) if item.name != "keys")
