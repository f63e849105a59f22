"""How a command fails: one line on stderr that says what to change, and exit status 1."""


class CommandError(Exception):
    """What the user sees instead of a traceback; further lines are details, such as the end of a log."""
