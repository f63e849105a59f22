"""Warnings about objects that a controller meets again and again."""

import logging

log = logging.getLogger("deviceshare.local_cluster")

MAX_REPORTED = 1000
"""Problems that are remembered; then all are forgotten, and logged again."""


class WarnOnce:
    """Logs each problem once."""

    def __init__(self) -> None:
        self._reported: set[str] = set()

    def warn(self, problem: str, where: str = "") -> None:
        """Log a problem; ``where``: what has it, if one warning is enough for all that have it."""
        if problem in self._reported:
            return
        if len(self._reported) == MAX_REPORTED:
            self._reported.clear()
        self._reported.add(problem)
        log.warning("%s", f"{where}: {problem}" if where else problem)
