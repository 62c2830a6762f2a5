"""The help of a command: plain text under the titles of its options.

It is drawn without rich, which takes longer to load than help takes to read.
"""

from typing import Any

import typer.core

_WIDEST_NAME = 34


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
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": []}
        for parameter in self.get_params(ctx):
            title = getattr(parameter, "rich_help_panel", None) or "Other"
            if parameter.param_type_name == "argument":
                described = getattr(parameter, "help", None) or ""
                sections["Arguments"].append((str(parameter.metavar), described))
            elif record := parameter.get_help_record(ctx):
                sections.setdefault(title, []).append(record)
        other = sections.pop("Other", [])
        last = "Other" if len(sections) > 1 else "Options"
        for title, records in {**sections, last: other}.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records, col_max=_WIDEST_NAME)
