"""The map of the package, checked: floors for modules, rooms for libraries."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "sglrun"

# Bottom to top: a module imports from its own floor and those below it.
FLOORS = (
    ("errors",),
    ("lang",),
    ("backends",),
    ("interpreter",),
    ("batch",),
    ("scale", "display"),
    ("config",),
    ("cli",),
    ("__main__",),
)

# A library is imported in its rooms and nowhere else.
ROOMS = {
    "ctypes": {"backends.local", "cli.memory"},
    "jinja2": {"backends.jinja_template"},
    "jsonlines": {"batch"},
    "numpy": {"backends.local"},
    "requests": {"backends.http"},
    "urllib3": {"backends.http"},
    "rich": {"display", "cli"},
    "typer": {"cli"},
    "xllamacpp": {"backends.local"},
    "yaml": {"config"},
    "zstandard": {"batch"},
}

# What stands at the top of the project; dot-files besides.
TOP = {
    "README.md",
    "programs",
    "pyproject.toml",
    "sample_data",
    "sglrun",
    "tests",
}

MAX_LINES = 350


def imported(path: Path) -> set[str]:
    """Return the modules that *path* imports, by their full names."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = str(node.module)
            found.add(module)
            found |= {f"{module}.{alias.name}" for alias in node.names}
    return found


def module_name(path: Path) -> str:
    """Return the module's name below the package."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


FILES = {
    module_name(path): path
    for path in sorted(PACKAGE.rglob("*.py"))
    if path != PACKAGE / "__init__.py"
}
IMPORTS = {
    name: {
        module.removeprefix("sglrun.")
        for module in imported(path)
        if module.removeprefix("sglrun.") in FILES and module.startswith("sglrun.")
    }
    - {name}
    for name, path in FILES.items()
}


def floor(module: str) -> int:
    """Return the number of the floor that *module* stands on."""
    top = module.partition(".")[0]
    return next(level for level, names in enumerate(FLOORS) if top in names)


def within(module: str, rooms: set[str]) -> bool:
    """Return whether *module* is one of *rooms* or stands inside one."""
    return any(module == room or module.startswith(f"{room}.") for room in rooms)


@pytest.mark.parametrize("module", FILES)
def test_imports_go_down(module: str) -> None:
    """A module stands on a floor of the house and imports nothing from above."""
    above = {name for name in IMPORTS[module] if floor(name) > floor(module)}

    assert above == set()


def test_imports_have_no_circle() -> None:
    """The imports of all modules can be put in one order."""
    order = list(TopologicalSorter(IMPORTS).static_order())

    assert set(order) >= set(FILES)


@pytest.mark.parametrize("library", ROOMS)
def test_a_library_stays_in_its_room(library: str) -> None:
    """Only a library's own rooms import it."""
    users = {
        module
        for module, path in FILES.items()
        if library in {name.partition(".")[0] for name in imported(path)}
    }

    assert {user for user in users if not within(user, ROOMS[library])} == set()


@pytest.mark.parametrize("module", FILES)
def test_a_file_is_one_noun(module: str) -> None:
    """A module says what it is in its first line and has room left for that."""
    text = FILES[module].read_text("utf-8")

    assert ast.get_docstring(ast.parse(text))
    assert len(text.splitlines()) <= MAX_LINES


def test_nothing_else_stands_at_the_top() -> None:
    """The top of the project holds what the design names and dot-files."""
    root = PACKAGE.parent
    built = {"build", "dist"}
    found = {
        path.name
        for path in root.iterdir()
        if not path.name.startswith(".") and path.suffix != ".egg-info"
    }

    assert found - built == TOP


@pytest.mark.parametrize("module", FILES)
def test_only_cli_exits(module: str) -> None:
    """Only the command line ends the process or prints."""
    if floor(module) >= floor("cli"):
        return
    calls = {
        ast.unparse(node.func)
        for node in ast.walk(ast.parse(FILES[module].read_text("utf-8")))
        if isinstance(node, ast.Call)
    }

    assert calls & {"sys.exit", "os._exit", "exit", "quit", "print"} == set()
