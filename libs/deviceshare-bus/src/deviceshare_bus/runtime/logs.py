"""Structured logs: one JSON object per line on stderr."""

import logging
import sys
import time

import msgspec
from deviceshare.model import visible

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """Formats a record as JSON; the items of ``extra`` become fields."""

    def __init__(self, service: str, instance: str) -> None:
        super().__init__()
        self._service = service
        self._instance = instance
        self._second = (0, "")
        """The latest second of unix time, and its text."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        second, text = self._second
        if second != int(record.created):
            second = int(record.created)
            text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
            self._second = second, text
        line: dict[str, object] = {
            "time": f"{text}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "service": self._service,
            "instance": self._instance,
            "message": record.getMessage(),
        }
        line |= {key: value for key, value in vars(record).items() if key not in _STANDARD}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return visible(msgspec.json.encode(line, enc_hook=str).decode())


def set_up_logs(service: str, instance: str, level: str) -> None:
    """Write all logs of this process to stderr. What no line shows is not computed."""
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging._srcfile = None  # the documented way to do without the caller's line
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter(service, instance))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
