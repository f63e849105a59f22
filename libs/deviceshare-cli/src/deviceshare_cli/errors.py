"""The errors of commands: one line on stderr with the remedy, and exit status 1."""


class CommandError(Exception):
    """Printed instead of a traceback; further lines are details, such as the end of a log."""


class NotFoundError(CommandError):
    """The source answers, and does not know the object."""
