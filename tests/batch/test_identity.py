"""The identity of a run."""

from pathlib import Path

import pytest

from sglrun.backends.mock import MockBackend
from sglrun.batch.identity import (
    Identity,
    identity_changes,
    program_files,
    run_identity,
)
from sglrun.interpreter.loader import load_program
from sglrun.lang.sampling import SamplingParams

SOURCES = {
    "prog.py": "import sglrun as sgl\nimport helper\nimport json\n"
    "from pkg.inner import deep\n\n\n"
    "@sgl.function\ndef prog(s, q):\n    s += q + sgl.gen('a')\n",
    "helper.py": "import helper2\n",
    "helper2.py": "import helper\n",
    "unused.py": "x = 1\n",
    "pkg/__init__.py": "",
    "pkg/inner.py": "from . import sibling\nfrom .sibling import deep\n",
    "pkg/sibling.py": "deep = 1\n",
    "pkg/unused.py": "not python",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a program, what it imports, and what it does not."""
    (tmp_path / "pkg").mkdir()
    for name, text in SOURCES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def identity_of(
    folder: Path,
    *,
    model: str = "m1",
    sampling: SamplingParams | None = None,
    reference: str = "",
    require_stop: bool = False,
) -> Identity:
    return run_identity(
        load_program(str(folder / "prog.py")),
        MockBackend(model=model),
        sampling=sampling or SamplingParams(),
        reference=reference,
        require_stop=require_stop,
    )


def test_a_program_is_what_it_imports_beside_it(folder: Path) -> None:
    """Files beside the program count if it imports them, at any remove."""
    assert [name for name, _ in program_files(folder / "prog.py")] == [
        "prog.py",
        *("helper.py", "helper2.py"),
        *("pkg/__init__.py", "pkg/inner.py", "pkg/sibling.py"),
    ]


def test_a_program_of_a_package_is_named_from_its_root(folder: Path) -> None:
    """A program inside a package is found with what it imports from there."""
    assert [name for name, _ in program_files(folder / "pkg" / "inner.py")] == [
        "pkg/inner.py",
        *("pkg/__init__.py", "pkg/sibling.py"),
    ]


def test_a_program_that_cannot_be_parsed_is_its_file(folder: Path) -> None:
    """What imports nothing that can be read is one file."""
    assert program_files(folder / "pkg" / "unused.py")[0][0] == "pkg/unused.py"
    assert program_files(folder / "absent.py") == []


@pytest.mark.parametrize("name", ["prog.py", "helper2.py", "pkg/sibling.py"])
def test_a_changed_source_is_named(folder: Path, name: str) -> None:
    """A change of any file of the program is a change of the run, by its name."""
    before = identity_of(folder)
    (folder / name).write_text(SOURCES[name] + "# changed\n")
    (change,) = identity_changes(before, identity_of(folder))

    assert change.startswith(f"source of {name}: ")


def test_what_is_not_imported_changes_nothing(folder: Path) -> None:
    """A file that the program does not use may change."""
    before = identity_of(folder)
    (folder / "unused.py").write_text("x = 2\n")

    assert identity_changes(before, identity_of(folder)) == ()


def test_changes_are_told_as_a_user_reads_them(folder: Path) -> None:
    """Model and sampling are named with what they were and are."""
    before = identity_of(folder)
    now = identity_of(folder, model="m2", sampling=SamplingParams.of(temperature=0.5))

    assert identity_changes(before, now) == (
        "model: m1 → m2",
        'sampling: {} → {"temperature": 0.5}',
    )
    assert identity_changes({}, {"a": "b"}) == ("a: none → b",)


def test_what_finds_a_program_is_part_of_it(folder: Path) -> None:
    """Programs of one name are told apart; the name itself says nothing more."""
    plain = identity_of(folder)
    made = identity_of(folder, reference="make('fr')")

    assert identity_of(folder, reference="prog") == plain
    assert identity_changes(plain, made) == ("program: prog → prog as make('fr')",)


def test_what_is_required_of_a_text_is_part_of_a_run(folder: Path) -> None:
    """Rows that were well enough before may not be now."""
    required = identity_of(folder, require_stop=True)

    assert identity_changes(identity_of(folder), required) == (
        "require stop: none → yes",
    )
