"""The help of a command: plain text under the titles of its options.

It is drawn without rich, which takes longer to load than help takes to read.
"""

from typing import Any

import typer.core

_WIDEST_NAME = 30

Sections = dict[str, list[tuple[str, str]]]
"""Title to lines of help: a name and its text."""


class HelpfulCommand(typer.core.TyperCommand):
    """A command whose help shows its options in their sections."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the parts of the usage line: each argument as it is typed."""
        arguments = [
            str(parameter.metavar)
            for parameter in self.get_params(ctx)
            if parameter.param_type_name == "argument"
        ]
        return ["[OPTIONS]", *arguments]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options, each section under its title."""
        sections: Sections = {"Arguments": []}
        for parameter in self.get_params(ctx):
            title = getattr(parameter, "rich_help_panel", None) or "Other"
            if parameter.param_type_name == "argument":
                described = getattr(parameter, "help", None) or ""
                sections["Arguments"].append((str(parameter.metavar), described))
            elif record := parameter.get_help_record(ctx):
                sections.setdefault(title, []).append(record)
        other = sections.pop("Other", [])
        last = "Other" if len(sections) > 1 else "Options"
        shown = {title: records for title, records in sections.items() if records}
        shown |= {last: other}
        for title, records in aligned(shown).items():
            with formatter.section(title):
                formatter.write_dl(records, col_max=_WIDEST_NAME)


def aligned(sections: Sections) -> Sections:
    """Return *sections* with names as wide as the widest, so that all texts align."""
    names = [name for records in sections.values() for name, _ in records]
    width = max((len(name) for name in names if len(name) <= _WIDEST_NAME), default=0)
    return {
        title: [(name.ljust(width), text) for name, text in records]
        for title, records in sections.items()
    }
