"""Notices of `up` from the logs of its services."""

import asyncio
from pathlib import Path

from deviceshare_bus.wire.tasks import end
from deviceshare_cli.notices import LogReader, Notices, read_logs
from support.waiting import until


def test_warnings_and_errors_are_reported_once(tmp_path: Path) -> None:
    log = tmp_path / "binder.log"
    reported: list[str] = []
    reader = LogReader("binder", log, Notices(reported.append))
    reader.read(0.0)
    with log.open("a") as file:
        file.write(
            '{"level":"info","message":"started"}\n{"level":"warning","message":"connection\\nlost"}\nTraceback\n'
        )
        file.write('{"level":"error","message":"half a li')
        file.flush()
        reader.read(1.0)
        assert reported == ["binder: warning: connection lost"]
        file.write('ne"}\n{"level":"warning","message":"connection\\nlost"}\n')
        file.flush()
        reader.read(2.0)
        assert reported == ["binder: warning: connection lost", "binder: error: half a line"]
        file.write('{"level":"warning","message":"connection\\nlost"}\n')
        file.flush()
        reader.read(40.0)
    assert reported[2:] == ["binder: warning: connection lost"]


async def test_the_last_line_of_a_service_is_reported(tmp_path: Path) -> None:
    log = tmp_path / "binder.log"
    log.write_text('{"level":"warning","message":"first"}\n')
    reported: list[str] = []
    reading = asyncio.create_task(read_logs([LogReader("binder", log, Notices(reported.append))], interval=60.0))
    await until(lambda: reported)
    with log.open("a") as file:
        file.write('{"level":"warning","message":"last"}\n')
    await end(reading)
    assert reported == ["binder: warning: first", "binder: warning: last"]
