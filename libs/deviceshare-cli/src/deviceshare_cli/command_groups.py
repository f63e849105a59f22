"""The help of ``deviceshare``: its commands by what they are for."""

from collections.abc import Mapping
from typing import Any

from deviceshare_cli.added_commands import AddedCommands

GROUPS: Mapping[str, tuple[str, ...]] = {
    "Run": ("up", "version"),
    "Look": ("get", "describe", "explain", "top", "usage", "snapshot"),
    "Change the local cluster": ("apply", "create", "scale", "delete"),
    "Decide": ("fit", "simulate"),
    "Maintain": ("cordon", "uncordon", "drain", "credentials", "check", "replay"),
}
"""The commands by their purpose; those that are in none of these are shown last."""


class GroupedCommands(AddedCommands):
    """The commands of this distribution and of others, grouped in the help."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a section of the help for each group."""
        left = self.list_commands(ctx)
        groups = [(title, [name for name in names if name in left]) for title, names in GROUPS.items()]
        shown = {name for _, names in groups for name in names}
        groups.append(("Further commands", [name for name in left if name not in shown]))
        width = formatter.width - max(map(len, left)) - 6
        for title, names in groups:
            if names:
                with formatter.section(title):
                    formatter.write_dl([(name, self.commands[name].get_short_help_str(width)) for name in names])
