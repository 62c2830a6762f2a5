"""The commands: known by name and a line of help, loaded when one of them runs."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import typer
import typer.core
import typer.main

from sglrun.cli.help import HelpfulCommand

_SHORT_HELP: Mapping[str, str] = {
    "batch": "Run a program over every row.",
    "run": "Run a program once, shown live.",
    "script": "Run a script written for SGLang.",
    "trace": "Show the shared prefix and the graph.",
    "check": "Check rows before they are run.",
    "report": "Write one page about a run.",
    "doctor": "Say what would be used.",
    "models": "List or fetch local models.",
}
_SETTINGS: Mapping[str, dict[str, object]] = {
    # What stands after FILE is the script's, options too.
    "script": {"allow_interspersed_args": False},
}


class Commands(typer.core.TyperGroup):
    """All commands."""

    def __init__(self, **settings: Any) -> None:
        """Add each, and load none."""
        super().__init__(**settings)
        for name, short_help in _SHORT_HELP.items():
            self.add_command(LaterCommand(name, short_help))


class LaterCommand(typer.core.TyperCommand):
    """A command of the module of its name: the function of this name, or the group."""

    def __init__(self, name: str, short_help: str) -> None:
        """Stand for the command *name*."""
        super().__init__(name, short_help=short_help)
        self._name = name

    def loaded(self) -> Any:
        """Return the command itself."""
        found = getattr(import_module(f"sglrun.cli.{self._name}"), self._name)
        if isinstance(found, typer.Typer):
            return typer.main.get_command(found)
        alone = typer.Typer(add_completion=False, rich_markup_mode=None)
        settings = _SETTINGS.get(self._name)
        alone.command(self._name, cls=HelpfulCommand, context_settings=settings)(found)
        return typer.main.get_command(alone)

    def make_context(self, *arguments: Any, **settings: Any) -> Any:
        """Parse what was typed, by the command itself."""
        return self.loaded().make_context(*arguments, **settings)
