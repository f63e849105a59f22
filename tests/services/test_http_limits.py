"""Limits of the HTTP ports, with real sockets: half-open connections, slow bodies, clients that do not read."""

import asyncio
import re
import resource
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from aiohttp import ClientSession, web
from deviceshare.model import ConfigError
from deviceshare_bus.web import Access, HealthChecks, Serving, body_of, health_app, serve, serving
from deviceshare_metrics import change_stream

HALF_OPEN = 3_000
MANUAL = (Path(__file__).parents[2] / "docs" / "access.md").read_text()


@pytest.fixture(autouse=True)
def many_files() -> Iterator[None]:
    before, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 20_000), most))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (before, most))


@asynccontextmanager
async def served(*more: web.RouteDef) -> AsyncIterator[Serving]:
    async def expose(_: str) -> tuple[bytes, str]:
        return b"up 1\n", "text/plain"

    app = health_app(HealthChecks(alive=lambda: True, obstacle=str), expose, Access())
    app.add_routes(more)
    running = await serve(app, "127.0.0.1", 0)
    try:
        yield running
    finally:
        await running.cleanup()


async def opened(running: Serving, sent: bytes = b"") -> socket.socket:
    sock = socket.socket()
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, running.addresses[0])
    if sent:
        await asyncio.get_running_loop().sock_sendall(sock, sent)
    return sock


async def ended(sock: socket.socket) -> bytes:
    """Return what arrives until the server closes the connection."""
    found = b""
    with suppress(ConnectionError):
        while part := await asyncio.get_running_loop().sock_recv(sock, 1 << 16):
            found += part
    sock.close()
    return found


async def status(running: Serving, path: str = "/metrics") -> int:
    async with ClientSession() as session, session.get(f"http://127.0.0.1:{running.addresses[0][1]}{path}") as answer:
        return answer.status


async def until_status(running: Serving, wanted: int) -> None:
    """Ask for the large answer until it has a status."""
    async with asyncio.timeout(60):
        while await status(running, "/large") != wanted:
            await asyncio.sleep(0.05)


def test_the_limits_are_those_of_the_manual() -> None:
    """``tests/docs/test_bounds_page.py`` compares those of the table."""
    text = " ".join(MANUAL.partition("\nLimits of every HTTP port: ")[2].partition("\n\n")[0].split())
    assert re.findall(r"\d+", text) == [
        f"{serving.IDLE_SECONDS:g}",
        f"{serving.MAX_BODY >> 10}",
        f"{serving.BODY_SECONDS:g}",
        f"{serving.STALLED_SECONDS:g}",
        f"{change_stream.SLOW:g}",
        f"{serving.MAX_CONNECTIONS}",
        f"{serving.MAX_UNREAD_BYTES >> 20}",
        "503",
    ]
    assert serving._SWEEP_SECONDS < serving.IDLE_SECONDS / 5, "how late a connection may be closed"


async def test_half_open_connections_are_closed_and_leave_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "IDLE_SECONDS", 6.0)
    async with served() as running:
        half = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
        socks = [await opened(running, half if number % 2 else b"") for number in range(HALF_OPEN)]
        began = time.monotonic()
        assert await status(running) == 200, "a request is served meanwhile"
        assert time.monotonic() - began < 5
        async with asyncio.timeout(60):
            assert b"".join(await asyncio.gather(*map(ended, socks))) == b""
        assert await status(running) == 200


async def test_a_header_that_arrives_byte_by_byte_does_not_extend_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "IDLE_SECONDS", 0.6)
    async with served() as running:
        sock = await opened(running, b"GET /metrics HTTP/1.1\r\nX: ")
        end = asyncio.ensure_future(ended(sock))
        async with asyncio.timeout(60):
            with suppress(OSError):
                while not end.done():
                    await asyncio.get_running_loop().sock_sendall(sock, b"x")
                    await asyncio.sleep(0.05)
            await end


async def test_an_idle_connection_is_closed_after_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "IDLE_SECONDS", 0.5)
    async with served() as running:
        async with asyncio.timeout(60):
            text = await ended(await opened(running, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"))
        assert text.startswith(b"HTTP/1.1 200 ")
        assert text.endswith(b"ok")


async def test_answers_that_are_not_read_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    body = bytes(20 << 20)
    monkeypatch.setattr(serving, "MAX_UNREAD_BYTES", 50 << 20)

    async def large(_: web.Request) -> web.Response:
        return web.Response(body=body)

    async with served(web.get("/large", large)) as running:
        request = b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n"
        socks = [await opened(running, request) for _ in range(8)]
        await until_status(running, 503)
        assert await status(running) == 200, "a small answer"
        found = [await asyncio.get_running_loop().sock_recv(sock, 20) for sock in socks]
        assert 2 <= sum(each.startswith(b"HTTP/1.1 200 ") for each in found) <= 4, "some wait in the sockets"
        for sock in socks:
            sock.close()
        await until_status(running, 200)


async def test_a_slow_or_large_body_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "BODY_SECONDS", 0.3)
    monkeypatch.setattr(serving, "LINGER_SECONDS", 0.3)

    async def read(request: web.Request) -> web.Response:
        return web.json_response(dict(await body_of(request)))

    head = b"POST /healthz HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: "
    async with served(web.post("/healthz", read)) as running:
        # Not one of the public handlers: requires a known name.
        head = head.replace(b"Host: a", b"Host: localhost")
        async with asyncio.timeout(60):
            assert (await ended(await opened(running, head + b"90\r\n\r\na=b"))).startswith(b"HTTP/1.1 408 ")
            assert (await ended(await opened(running, head + b"99999999\r\n\r\na"))).startswith(b"HTTP/1.1 413 ")
            # The body of a request that is refused is not read.
            slow = head.replace(b"POST /healthz", b"POST /metrics") + b"500\r\n\r\na"
            assert (await ended(await opened(running, slow))).startswith(b"HTTP/1.1 405 ")


async def test_a_client_that_does_not_read_its_answer_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "STALLED_SECONDS", 1.0)
    monkeypatch.setattr(serving, "_SWEEP_SECONDS", 0.2)

    async def large(_: web.Request) -> web.Response:
        return web.Response(body=b"x" * (64 << 20))

    async with served(web.get("/large", large)) as running:
        began = time.monotonic()
        sock = await opened(running, b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await asyncio.sleep(0.1)
        async with asyncio.timeout(60):
            while running.connections:
                await asyncio.sleep(0.05)
            assert time.monotonic() - began > 1
            assert len(await ended(sock)) < 64 << 20, "the rest is not sent"


async def test_connections_with_requests_in_progress_are_not_closed_for_new_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(serving, "MAX_CONNECTIONS", 4)
    going = asyncio.Event()

    async def slow(_: web.Request) -> web.Response:
        await going.wait()
        return web.Response(text="done")

    async with served(web.get("/slow", slow)) as running:
        request = b"GET /slow HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        working = [await opened(running, request) for _ in range(4)]
        await asyncio.sleep(0.2)
        refused = await opened(running, request)
        async with asyncio.timeout(60):
            assert await ended(refused) == b"", "a further one is closed"
            going.set()
            answers = await asyncio.gather(*map(ended, working))
        assert all(answer.endswith(b"done") for answer in answers)


async def test_a_port_in_use_is_an_error_that_names_the_option() -> None:
    async with served() as running:
        with pytest.raises(ConfigError, match="--health-port"):
            await serve(web.Application(), "127.0.0.1", running.addresses[0][1], "--health-port")


async def test_every_answer_has_the_headers_and_no_version_of_the_server() -> None:
    async with served() as running, ClientSession(f"http://127.0.0.1:{running.addresses[0][1]}") as session:
        for path in ("/healthz", "/metrics", "/absent"):
            async with session.get(path) as answer:
                assert {name: answer.headers[name] for name in serving.HEADERS} == serving.HEADERS
                assert answer.headers["Server"] == "deviceshare"
