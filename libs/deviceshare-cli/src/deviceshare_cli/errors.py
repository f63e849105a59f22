"""The errors of commands: one line on stderr with the remedy, and exit status 1."""


class CommandError(Exception):
    """Printed instead of a traceback, as one line whatever its text has. ``details``: lines below it, as of a log."""

    def __init__(self, message: str, details: str = "") -> None:
        super().__init__(message)
        self.details = details


class NotFoundError(CommandError):
    """The source answers, and does not know the object."""


class NotAllowedError(CommandError):
    """The cluster answers, and refuses to list a kind."""
