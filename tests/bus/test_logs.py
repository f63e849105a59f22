"""Log lines are JSON objects with the fields that operators search for."""

import json
import logging

import pytest
from deviceshare_bus.runtime.logs import JsonFormatter, set_up_logs
from deviceshare_bus.wire.connection import without_password
from support.hostile_texts import TEXT, harmless


def line(record: logging.LogRecord) -> dict[str, object]:
    return json.loads(JsonFormatter("binder", "binder-1").format(record))


def record(message: str, *arguments: object, **extra: object) -> logging.LogRecord:
    made = logging.LogRecord("deviceshare.x", logging.WARNING, "x.py", 1, message, arguments, None)
    made.created, made.msecs = 1_700_000_000.007, 7.0
    vars(made).update(extra)
    return made


def test_a_line_has_time_level_service_message_and_the_extra_fields() -> None:
    assert line(record("%d pods", 3, node="n1", exact=True, odd={1})) == {
        "time": "2023-11-14T22:13:20.007Z",
        "level": "warning",
        "service": "binder",
        "instance": "binder-1",
        "message": "3 pods",
        "node": "n1",
        "exact": True,
        "odd": [1],
    }


def test_an_exception_is_a_field() -> None:
    made = record("failed")
    try:
        raise ValueError("wrong number")
    except ValueError as error:
        made.exc_info = (type(error), error, error.__traceback__)
    assert line(made)["exception"].endswith("ValueError: wrong number")


def test_what_is_no_json_is_written_as_text() -> None:
    assert line(record("x", error=ValueError("wrong")))["error"] == "wrong"


def test_logs_below_the_level_are_not_written(capsys) -> None:
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    try:
        set_up_logs("binder", "binder-1", "warning")
        logging.getLogger("deviceshare.x").info("unseen")
        logging.getLogger("deviceshare.x").warning("seen")
        logging.getLogger("aiohttp.access").info("unseen")
    finally:
        root.handlers[:], root.level = before, level
    (written,) = capsys.readouterr().err.splitlines()
    assert json.loads(written)["message"] == "seen"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("nats://user:secret@host:4222", "nats://…@host:4222"),
        ("nats://token@host", "nats://…@host"),
        ("nats://user:p@ss@host", "nats://…@host"),
        ("user:secret@host", "…@host"),
        ("nats://host:4222", "nats://host:4222"),
        ("host", "host"),
    ],
)
def test_a_shown_url_has_no_password(url, shown) -> None:
    assert without_password(url) == shown


def test_texts_of_users_do_not_reach_the_terminal_of_who_reads_logs() -> None:
    made = record("pod %s", TEXT, detail=TEXT)
    harmless(JsonFormatter("binder", "binder-1").format(made))
    assert (line(made)["message"], line(made)["detail"]) == (f"pod {TEXT}", TEXT)
