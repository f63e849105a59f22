"""Notices of a running ``up``: one line each on stderr, a repeated line at most once in 30 seconds."""

import asyncio
import logging
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
from deviceshare.model import visible

REPEAT_AFTER = 30.0
"""Seconds before the same line is reported again."""
LEVELS = ("warning", "error", "critical")


def to_stderr(line: str) -> None:
    """Write a line to stderr."""
    print(visible(line), file=sys.stderr, flush=True)


class Notices:
    """Writes notices. ``write`` is replaced while a live table is on the terminal."""

    def __init__(self, write: Callable[[str], None] = to_stderr) -> None:
        self.write = write
        self._reported: dict[str, float] = {}

    def report(self, line: str) -> None:
        """Write a line."""
        self.write(line)

    def report_repeated(self, line: str, now: float) -> None:
        """Write a line at most once in REPEAT_AFTER seconds; ``now`` in seconds of any clock."""
        if now - self._reported.get(line, -REPEAT_AFTER) < REPEAT_AFTER:
            return
        if len(self._reported) > 10_000:
            self._reported.clear()
        self._reported[line] = now
        self.write(line)


class NoticeHandler(logging.Handler):
    """Reports the warnings of this process's own libraries."""

    def __init__(self, notices: Notices) -> None:
        super().__init__(logging.WARNING)
        self._notices = notices

    def emit(self, record: logging.LogRecord) -> None:
        """Report a record as one line."""
        self._notices.report_repeated(f"up: {record.levelname.lower()}: {record.getMessage()}", record.created)


class _LogLine(msgspec.Struct):
    level: str = ""
    message: str = ""


class LogReader:
    """Follows the log of a service and reports its warnings and errors, one line each."""

    def __init__(self, service: str, log: Path, notices: Notices) -> None:
        self._service = service
        self._log = log
        self._notices = notices
        self._offset = 0
        self._decode = msgspec.json.Decoder(_LogLine).decode

    def read(self, now: float) -> None:
        """Report the lines that were appended since the last call."""
        try:
            with self._log.open("rb") as file:
                file.seek(self._offset)
                new = file.read()
        except OSError:
            return
        whole, newline, _ = new.rpartition(b"\n")
        self._offset += len(whole) + len(newline)
        for raw in whole.splitlines():
            try:
                line = self._decode(raw)
            except msgspec.MsgspecError:
                continue  # part of a traceback: shown with the end of the log if the service fails
            if line.level in LEVELS:
                message = " ".join(line.message.split())
                self._notices.report_repeated(f"{self._service}: {line.level}: {message}", now)


async def read_logs(readers: list[LogReader], interval: float = 0.25) -> None:
    """Read logs every ``interval`` seconds until cancelled, then once more for the last lines."""
    loop = asyncio.get_running_loop()
    try:
        while True:
            for reader in readers:
                reader.read(loop.time())
            await asyncio.sleep(interval)
    finally:
        for reader in readers:
            reader.read(loop.time())
