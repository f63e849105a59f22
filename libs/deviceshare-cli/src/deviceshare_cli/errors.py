"""The error of a command: one line on stderr with the remedy, and exit status 1."""


class CommandError(Exception):
    """Printed instead of a traceback; further lines are details, such as the end of a log."""
