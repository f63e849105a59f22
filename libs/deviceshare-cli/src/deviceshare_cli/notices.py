"""What a running ``up`` says beside its results: one line each, on stderr, the same line not again and again."""

import asyncio
import logging
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

REPEAT_AFTER = 30.0
"""Seconds in which the same line is said once."""
LEVELS = ("warning", "error", "critical")


def to_stderr(line: str) -> None:
    """Write a line to stderr."""
    print(line, file=sys.stderr, flush=True)


class Notices:
    """Says lines. ``write`` is replaced while a live table holds the terminal."""

    def __init__(self, write: Callable[[str], None] = to_stderr) -> None:
        self.write = write
        self._said: dict[str, float] = {}

    def say(self, line: str) -> None:
        """Say a line."""
        self.write(line)

    def repeat(self, line: str, now: float) -> None:
        """Say a line that may come often, at most once in REPEAT_AFTER seconds; ``now`` in seconds of any clock."""
        if now - self._said.get(line, -REPEAT_AFTER) < REPEAT_AFTER:
            return
        if len(self._said) > 10_000:
            self._said.clear()
        self._said[line] = now
        self.write(line)


class NoticeHandler(logging.Handler):
    """Says the warnings of this process's own libraries."""

    def __init__(self, notices: Notices) -> None:
        super().__init__(logging.WARNING)
        self._notices = notices

    def emit(self, record: logging.LogRecord) -> None:
        """Say a record as one line."""
        self._notices.repeat(f"up: {record.levelname.lower()}: {record.getMessage()}", record.created)


class _LogLine(msgspec.Struct):
    level: str = ""
    message: str = ""


class LogReader:
    """Reads the growing log of a service, and says its warnings and errors, condensed to one line each."""

    def __init__(self, service: str, log: Path, notices: Notices) -> None:
        self._service = service
        self._log = log
        self._notices = notices
        self._offset = 0
        self._decode = msgspec.json.Decoder(_LogLine).decode

    def read(self, now: float) -> None:
        """Say what came since the last call."""
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
                continue  # a traceback at the start of Python: shown with the end of the log, if it matters
            if line.level in LEVELS:
                message = " ".join(line.message.split())
                self._notices.repeat(f"{self._service}: {line.level}: {message}", now)


async def read_logs(readers: list[LogReader], interval: float = 0.25) -> None:
    """Read logs until cancelled, then once more: what a service said last is said as well."""
    loop = asyncio.get_running_loop()
    try:
        while True:
            for reader in readers:
                reader.read(loop.time())
            await asyncio.sleep(interval)
    finally:
        for reader in readers:
            reader.read(loop.time())
