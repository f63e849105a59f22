"""Execution of the commands that record what has happened: steps of pods, counters, traces and lines of the log."""

import logging

from deviceshare.model import trace_id

from deviceshare_bus.cores.core import Command, Count, Log, RecordBatch, RecordStep, RecordTrace
from deviceshare_bus.runtime.service import Context

log = logging.getLogger("deviceshare.shell")


class Records:
    """Writes the records of one core; they have no answers."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def write(self, command: Command) -> bool:
        """Execute a command that records something; return whether it is one."""
        match command:
            case RecordStep():
                self._context.events.step(command)
            case Count(name=name, amount=amount):
                self._context.events.count(name, amount)
            case RecordTrace():
                self._context.tracing.record(command)
            case RecordBatch():
                now = self._context.clock().wall
                self._context.metrics.observe_round(max(0.0, now - command.at))
                self._context.tracing.batch(command, now)
            case Log(level=level, message=message, details=details):
                number = logging.getLevelName(level.upper())
                if log.isEnabledFor(number):
                    if (uid := details.get("uid")) is not None:
                        details = {**details, "trace_id": trace_id(uid)}
                    log.log(number, "%s", message, extra=details)
            case _:
                return False
        return True
