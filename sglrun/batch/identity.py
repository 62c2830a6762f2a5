"""The identity of a run: what must be the same for its results to belong together."""

import ast
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from sglrun.backends.base import Backend
from sglrun.batch.results import Include, Layout
from sglrun.interpreter.program import Program
from sglrun.lang.chat_template import ChatTemplate
from sglrun.lang.sampling import SamplingParams

Identity = Mapping[str, str]
"""What a run is made of, by name, in words that a user can compare."""

_SHORT = 12


def run_identity(
    program: Program,
    backend: Backend,
    *,
    sampling: SamplingParams,
    layout: Layout = "record",
    include: frozenset[Include] = frozenset(),
    reference: str = "",
    require_stop: bool = False,
) -> Identity:
    """Return what results of this run must have in common.

    The program is its file and the files beside it that it imports, at any remove.

    Args:
        program: what is run.
        backend: where it is sent.
        sampling: the run's parameters.
        layout: how results are written.
        include: what they have beside the output.
        reference: what found the program in its file; empty if it is the only one.
        require_stop: a text that did not end by itself is an error.
    """
    files = program_files(program.path)
    return {
        "program": _called(program, reference),
        **{f"source of {name}": _hash(path.read_bytes()) for name, path in files},
        "backend": backend.kind,
        "model": backend.model,
        "chat template": _template(backend.chat_template),
        "sampling": json.dumps(sampling.given(), default=str, sort_keys=True),
        "format": layout,
        "include": ",".join(sorted(include)) or "nothing",
        **({"require stop": "yes"} if require_stop else {}),
    }


def identity_changes(before: Identity, now: Identity) -> tuple[str, ...]:
    """Return what differs, as ``model: m1 → m2``, in order."""
    names = dict.fromkeys((*before, *now))
    return tuple(
        f"{name}: {before.get(name, 'none')} → {now.get(name, 'none')}"
        for name in names
        if before.get(name) != now.get(name)
    )


def program_files(path: Path) -> list[tuple[str, Path]]:
    """Return *path* and the files that it imports from where it stands, by name."""
    path = path.resolve()
    if not path.is_file():  # written into a session, not a file
        return []
    root = _root(path)
    found: dict[Path, None] = {}
    waiting = [path]
    while waiting:
        file = waiting.pop()
        if file in found or not file.is_file():
            continue
        found[file] = None
        waiting.extend(_imported_files(file, root))
        waiting.extend(_package_files(file, root))
    files = sorted(found, key=lambda file: (file != path, str(file)))
    return [(str(file.relative_to(root)), file) for file in files]


def _root(path: Path) -> Path:
    """Return the folder from which *path* is imported: above all its packages."""
    folder = path.parent
    while (folder / "__init__.py").is_file() and folder != folder.parent:
        folder = folder.parent
    return folder


def _package_files(file: Path, root: Path) -> Iterator[Path]:
    """Yield what is run before *file*: the packages that it stands in."""
    for folder in file.parents:
        if folder == root:
            return
        yield folder / "__init__.py"


def _imported_files(file: Path, root: Path) -> Iterator[Path]:
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _module_files(root, alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            base = file.parents[node.level - 1] if node.level else root
            parts = node.module.split(".") if node.module else []
            for alias in node.names:
                yield from _module_files(base, [*parts, alias.name])


def _module_files(base: Path, parts: list[str]) -> Iterator[Path]:
    """Yield the files of a module and of the packages around it, below *base*."""
    place = base
    for part in parts:
        place /= part
        for file in (place.with_suffix(".py"), place / "__init__.py"):
            if file.is_file():
                yield file


def _called(program: Program, reference: str) -> str:
    """Return the name of *program*, and what else tells it from others of that name."""
    if reference in {"", program.name}:
        return program.name
    return f"{program.name} as {reference}"


def _template(template: ChatTemplate) -> str:
    facts = replace(template, name="")
    return f"{template.name} ({_hash(repr(facts).encode())})"


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:_SHORT]
