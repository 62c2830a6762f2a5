"""The loader: programs that cannot be loaded, and why."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sglrun.errors import ProgramLoadError
from sglrun.interpreter.loader import load_program, reference_in

PROGRAM = """
import sglrun as sgl

@sgl.function
def one(s, q):
    s += q
"""


@pytest.fixture(autouse=True)
def _paths() -> Iterator[None]:
    """Leave Python's paths and modules as they were."""
    paths, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = paths
    for name in sys.modules.keys() - modules:
        del sys.modules[name]


def wrong(spec: str) -> str:
    """Return why *spec* cannot be loaded."""
    with pytest.raises(ProgramLoadError) as caught:
        load_program(spec)
    assert caught.value.exit_code == 2
    return str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """A file that does not exist, or is a folder, is told apart."""
    folder = tmp_path / "folder.py"
    folder.mkdir()

    assert "nowhere.py' does not exist" in wrong(f"{tmp_path}/nowhere.py")
    assert "does not exist" in wrong(f"{tmp_path}/nowhere.py:one")
    assert "is a directory" in wrong(str(folder))


def test_a_folder_is_no_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that is named like a module is told to be a folder."""
    (tmp_path / "folder_of_programs").mkdir()
    monkeypatch.syspath_prepend(tmp_path)

    assert "is a directory; a program is path.py" in wrong("folder_of_programs")


@pytest.mark.parametrize("spec", ["", ":one", "prog.txt:one", "a-b:one", "./prog"])
def test_what_is_neither_file_nor_module_says_the_forms(spec: str) -> None:
    """A specification of no known form is answered with the forms there are."""
    message = wrong(spec)

    assert "path.py:name" in message or "no module" in message


def test_a_file_without_a_program_says_how_to_make_one(tmp_path: Path) -> None:
    """A file that decorates nothing is told how."""
    path = tmp_path / "none.py"
    path.write_text("x = 1\n")

    assert "decorate a function with @sgl.function" in wrong(str(path))


def test_a_name_that_does_not_exist_lists_the_programs(tmp_path: Path) -> None:
    """A wrong name is answered with those in the file."""
    path = tmp_path / "prog.py"
    path.write_text(PROGRAM)

    assert "one" in wrong(f"{path}:two")


@pytest.mark.parametrize(
    ("code", "said", "line"),
    [
        ("x = (\n", "SyntaxError: '(' was never closed (broken.py:1)", 1),
        ("x = 1\n1 / 0\n", "ZeroDivisionError: division by zero", 2),
        ("import sys\nsys.exit(3)\n", "SystemExit: 3", 2),
        ("import not_installed_here\n", "No module named 'not_installed_here'", 1),
        ("raise KeyError('q')\n", "KeyError: 'q'", 1),
        ("from sglrun import nothing\n", "ImportError", 1),
    ],
)
def test_code_that_raises_is_named_by_its_line(
    tmp_path: Path, code: str, said: str, line: int
) -> None:
    """Whatever a file's code raises is told with its line, never as a traceback."""
    path = tmp_path / "broken.py"
    path.write_text(code)
    message = wrong(str(path))

    assert said in message
    assert f"broken.py:{line}" in message


def test_a_missing_import_says_what_to_install(tmp_path: Path) -> None:
    """A library that a program needs is named in the advice."""
    path = tmp_path / "needs.py"
    path.write_text("import not_installed_here\n")
    with pytest.raises(ProgramLoadError) as caught:
        load_program(str(path))

    assert "install 'not_installed_here'" in caught.value.__notes__[0]


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"x = '\xe4'\n", b"\x00"])
def test_a_file_that_is_no_python_is_a_load_error(
    tmp_path: Path, content: bytes
) -> None:
    """Bytes that are no Python are told as such."""
    path = tmp_path / "bytes.py"
    path.write_bytes(content)

    assert "cannot be loaded" in wrong(str(path))


def test_what_stands_beside_a_program_is_importable(tmp_path: Path) -> None:
    """A program may import its neighbours, and imported programs do not count."""
    (tmp_path / "beside_it.py").write_text(PROGRAM)
    path = tmp_path / "prog.py"
    path.write_text(PROGRAM.replace("one", "own") + "from beside_it import one\n")

    assert load_program(str(path)).name == "own"


def test_only_imported_programs_count_where_there_are_no_others(
    tmp_path: Path,
) -> None:
    """A file that only imports a program offers that one."""
    (tmp_path / "beside_that.py").write_text(PROGRAM)
    path = tmp_path / "prog.py"
    path.write_text("from beside_that import one\n")

    assert load_program(str(path)).name == "one"


def test_a_file_whose_name_has_a_colon(tmp_path: Path) -> None:
    """A path that exists as it is written is that path."""
    path = tmp_path / "a:b.py"
    path.write_text(PROGRAM)

    assert load_program(str(path)).path == path


@pytest.mark.parametrize(
    ("spec", "reference"),
    [
        ("prog.py", ""),
        ("package.module", ""),
        ("prog.py:triage", "triage"),
        ('prog.py:make( lang="fr" )', "make(lang='fr')"),
        ("package.module:main().triage", "main().triage"),
    ],
)
def test_what_finds_a_program_is_spelled_one_way(spec: str, reference: str) -> None:
    """Spaces and quotes make no other program."""
    assert reference_in(spec) == reference
