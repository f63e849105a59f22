"""How long a server may deny credentials before they count as wrong, by the clock."""

import asyncio

import nats.errors
import pytest
from deviceshare.model import ConfigError
from deviceshare_bus.wire.connection import Connection, ConnectionEnded
from deviceshare_bus.wire.credentials import ANONYMOUS, Credentials

DENIAL = nats.errors.AuthorizationError()
OF_A_FILE = Credentials(seed="/etc/bus/seed.nk", user="reader")


class Denied:
    """A connection to a server that denies its credentials, at times that the test chooses."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, credentials: Credentials, *, opening: bool) -> None:
        self.connection = Connection("nats://user:password@host", credentials=credentials)
        self.connection._opening = opening
        self.notified = 0
        self.connection.on_reconnect(self._notify)
        self._patch = monkeypatch
        self.closed = 0
        monkeypatch.setattr(self.connection, "close", self._close)

    def _notify(self) -> None:
        self.notified += 1

    async def _close(self) -> None:
        self.closed += 1

    def fail(self, error: Exception, seconds: float) -> None:
        """Let nats-py report an error at a time, within this turn of the event loop."""
        with self._patch.context() as at:
            at.setattr(asyncio.get_running_loop(), "time", lambda: 1000.0 + seconds)
            with pytest.raises(StopIteration):
                self.connection._failed(error).send(None)


@pytest.fixture(params=[ANONYMOUS, OF_A_FILE], ids=["of the URL", "of a file"])
def credentials(request: pytest.FixtureRequest) -> Credentials:
    chosen: Credentials = request.param
    return chosen


EXPECTED = {
    ANONYMOUS: "--bus / DEVICESHARE_BUS: nats://…@host",
    OF_A_FILE: "--bus-credentials / DEVICESHARE_BUS_CREDENTIALS: /etc/bus/seed.nk",
}


async def test_a_first_connection_is_given_up_after_ten_denials(
    monkeypatch: pytest.MonkeyPatch, credentials: Credentials
) -> None:
    denied = Denied(monkeypatch, credentials, opening=True)
    for number in range(9):
        denied.fail(DENIAL, number / 10)
        denied.fail(OSError("refused"), number / 10)
    assert denied.connection.failure is None
    with pytest.raises(ConfigError, match="credentials that nats-server accepts") as raised:
        await denied.connection._failed(DENIAL)
    assert raised.value.args == getattr(denied.connection.failure, "args", None)
    assert all(part in str(raised.value) for part in EXPECTED[credentials].split(": ")), raised.value
    assert (denied.notified, denied.closed) == (1, 0)
    with pytest.raises(ConfigError):
        await denied.connection.wait_connected()


async def test_a_restored_connection_is_given_up_after_ten_denials_or_with_a_file_after_two_minutes(
    monkeypatch: pytest.MonkeyPatch, credentials: Credentials, caplog: pytest.LogCaptureFixture
) -> None:
    denied = Denied(monkeypatch, credentials, opening=False)
    for number in range(9):
        denied.fail(DENIAL, number / 10)
    assert (denied.connection.failure, caplog.messages) == (None, [])
    if credentials is OF_A_FILE:
        denied.fail(DENIAL, 0.9)
        denied.fail(DENIAL, 119.99)
        assert denied.connection.failure is None
        assert [text.partition(": ")[0] for text in caplog.messages] == ["waiting for nats://…@host"] * 2
        denied.fail(DENIAL, 120.0)
    else:
        denied.fail(DENIAL, 0.9)
        assert caplog.messages == []
    failure = denied.connection.failure
    assert isinstance(failure, ConfigError)
    assert "password" not in str(failure)
    denied.fail(DENIAL, 200.0)
    assert denied.connection.failure is failure, "it is final"
    await asyncio.sleep(0)
    assert (denied.notified, denied.closed) == (1, 1)


async def test_denials_are_counted_from_the_last_connection(
    monkeypatch: pytest.MonkeyPatch, credentials: Credentials
) -> None:
    denied = Denied(monkeypatch, credentials, opening=False)
    monkeypatch.setattr(denied.connection.client, "_max_payload", 8 << 20)
    for start in (0.0, 200.0):
        for number in range(9):
            denied.fail(DENIAL, start + number / 10)
        await denied.connection._came_back()
    assert denied.connection.failure is None
    assert denied.notified == 2


@pytest.mark.parametrize(
    ("text", "denies"),
    [
        ("'Authorization Violation'", True),
        ("nats: 'User Authentication Expired'", True),
        ("user authentication revoked", True),
        ("'Maximum Connections Exceeded'", False),
        ("Permissions Violation for Publish", False),
    ],
)
async def test_a_connection_that_is_closed_says_why(monkeypatch: pytest.MonkeyPatch, text: str, denies: bool) -> None:
    denied = Denied(monkeypatch, OF_A_FILE, opening=False)
    connection = denied.connection
    connection.client._err = nats.errors.Error(text)
    connection.closing = True
    await connection._was_closed()
    assert connection.failure is None, "it was closed here"
    connection.closing = False
    await connection._was_closed()
    assert isinstance(connection.failure, ConfigError if denies else ConnectionEnded)
    assert text in str(connection.failure)
    assert denied.notified == 1
