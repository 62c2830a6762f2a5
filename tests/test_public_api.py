"""The public API: what a program imports from ``sglrun``."""

import ast
from pathlib import Path
from types import ModuleType

import pytest

import sglrun

PROGRAMS = sorted((Path(__file__).parent.parent / "programs").glob("*.py"))


def test_all_is_exactly_what_is_exported() -> None:
    """``__all__`` is sorted and names every public thing, and nothing else."""
    public = {
        name
        for name, value in vars(sglrun).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }

    assert sorted(sglrun.__all__) == sglrun.__all__
    assert public == set(sglrun.__all__)


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_programs_import_only_the_public_api(path: Path) -> None:
    """A program needs nothing of sglrun but the package itself."""
    modules = {
        alias.name
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Import)
        for alias in node.names
    } | {
        str(node.module)
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom)
    }

    assert not {name for name in modules if name.startswith("sglrun.")}
