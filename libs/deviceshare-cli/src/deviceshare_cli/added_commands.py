"""Commands that other distributions add by entry points in the group ``deviceshare.commands``.

The laboratory adds ``lab``. Finding and importing them takes a tenth of a second: they are looked for only if they may
be meant, by a name that is unknown or by a list of all commands.
"""

from typing import Any

import typer.main
from typer.core import TyperGroup

from deviceshare_cli.notices import to_stderr

GROUP = "deviceshare.commands"
OF_LAB = ("bench", "chaos", "conformance")
"""Commands of the laboratory that had no ``lab`` before them in earlier versions."""


class AddedCommands(TyperGroup):
    """The commands of this distribution and of others. The types of contexts and commands are private to typer."""

    _are_added = False

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command by its name, None if there is none."""
        if cmd_name not in self.commands:
            self._add()
            if cmd_name in OF_LAB:
                ctx.fail(f"{cmd_name!r} is `deviceshare lab {cmd_name}`, of the distribution deviceshare-lab.")
            if cmd_name == "lab" and cmd_name not in self.commands:
                ctx.fail("'lab' is a command of the distribution deviceshare-lab, which is not installed.")
        return super().get_command(ctx, cmd_name)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        self._add()
        return super().list_commands(ctx)

    def _add(self) -> None:
        from importlib.metadata import entry_points

        if self._are_added:
            return
        self._are_added = True
        for point in entry_points(group=GROUP):
            try:
                app = point.load()
            except Exception as error:  # of another distribution: the other commands work
                to_stderr(f"deviceshare: the command {point.name} of {point.value} cannot be loaded: {error}")
                continue
            added = typer.main.get_group(app)
            added.name = point.name
            self.commands[point.name] = added
