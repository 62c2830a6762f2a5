"""What messages advise."""

import ast
import re
from pathlib import Path

import typer

import sglrun
from sglrun.cli import app

OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]+")

# These speak to others: pip, SGLang's benchmarks and server, a browser.
FOREIGN = frozenset({"fetch.py", "bench.py", "servers.py", "style.py"})


def known() -> set[str]:
    """Return every option of every command."""
    group = typer.main.get_command(app)
    later = group.commands.values()  # type: ignore[attr-defined]
    commands = [group, *(command.loaded() for command in later)]
    commands += [
        inner for each in commands for inner in getattr(each, "commands", {}).values()
    ]
    return {
        name
        for command in commands
        for option in command.params
        for name in (*option.opts, *option.secondary_opts)
    }


def named() -> dict[str, str]:
    """Return the options that texts of the package name, and a file of each."""
    return {
        option: path.name
        for path in Path(sglrun.__path__[0]).rglob("*.py")
        if path.name not in FOREIGN
        for text in texts(ast.parse(path.read_text("utf-8")))
        for option in OPTION.findall(text)
    }


def texts(tree: ast.Module) -> list[str]:
    """Return the texts in *tree* that are no docstrings."""
    docstrings = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)
    }
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in docstrings
    ]


def test_options_that_are_named_exist() -> None:
    """No message or help names an option that no command has."""
    unknown = {
        option: file for option, file in named().items() if option not in known()
    }

    assert unknown == {}
