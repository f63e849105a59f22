"""The HTTP client for requests about one object: answers in any pieces, lost connections, timeouts."""

import asyncio
import random
from contextlib import asynccontextmanager

import pytest
from deviceshare_cluster.kube.http import IDLE_SECONDS, MOST_HEAD, Answer, AnswerParser, HttpError, HttpPool, Unsent

LONG = bytes(range(256)) * 40
ANSWERS = [
    (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", Answer(200, b"{}")),
    (b"HTTP/1.1 201 Created\r\ncontent-length:0\r\nX: y\r\n\r\n", Answer(201, b"")),
    (b"HTTP/1.1 409 Conflict\r\nContent-Length: 10240\r\n\r\n" + LONG, Answer(409, LONG)),
    (b"HTTP/1.1 204 No Content\r\n\r\n", Answer(204, b"")),
    (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n", Answer(304, b"")),
    (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200\r\nContent-Length: 1\r\n\r\nx", Answer(200, b"x")),
    (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1e; name=value\r\n"
        + b"\r\n" * 15
        + b"\r\n0\r\n\r\n",
        Answer(200, b"abc" + b"\r\n" * 15),
    ),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nTrailer: 1\r\n\r\n", Answer(200, b"")),
]


@pytest.mark.parametrize("seed", range(40))
def test_an_answer_is_the_same_in_whatever_pieces_it_arrives(seed):
    chance = random.Random(seed)
    parser = AnswerParser()
    for _ in range(20):
        data, expected = chance.choice(ANSWERS)
        cuts = sorted(chance.sample(range(1, len(data)), min(len(data) - 1, chance.choice([0, 1, 3, 40]))))
        pieces = [data[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
        assert [parser.feed(piece) for piece in pieces] == [None] * (len(pieces) - 1) + [expected]
        assert not parser.began
        assert not parser.closes


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1_0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * MOST_HEAD,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1" * (MOST_HEAD + 1),
    ],
)
def test_what_is_not_http_is_an_error(data):
    with pytest.raises(HttpError):
        AnswerParser().feed(data)


def test_an_answer_without_a_length_ends_with_the_connection():
    parser = AnswerParser()
    assert parser.feed(b"HTTP/1.0 200 OK\r\n\r\n{}") is None
    assert parser.end() == Answer(200, b"{}")
    assert parser.closes


@pytest.mark.parametrize("data", [b"", b"HTTP/1.1 200", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{"])
def test_a_connection_that_ends_too_early_is_an_error(data):
    parser = AnswerParser()
    parser.feed(data)
    with pytest.raises(HttpError):
        parser.end()


@asynccontextmanager
async def server(answer):
    """Serve connections by ``answer(requests, writer)``, which gets the requests of the connection so far."""
    connections = []

    async def serve(reader, writer):
        requests = []
        connections.append(requests)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    (int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length:")), 0
                )
                requests.append(head + await reader.readexactly(length))
                await answer(requests, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    running = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = running.sockets[0].getsockname()[1]
    pool = HttpPool(f"http://127.0.0.1:{port}/prefix", limit=4, seconds=2.0)
    try:
        yield pool, connections
    finally:
        pool.close()
        running.close()
        await running.wait_closed()


async def echo(requests, writer):
    body = requests[-1]
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))


def test_requests_use_connections_again_and_at_most_so_many():
    async def run():
        async with server(echo) as (pool, connections):
            answers = await asyncio.gather(
                *(pool.request("POST", f"/{n}", [("Accept", "a")], b"body-%d" % n) for n in range(50))
            )
            assert len(connections) <= 4
            for n, answer in enumerate(answers):
                assert answer.body.startswith(b"POST /prefix/%d HTTP/1.1\r\nHost: 127.0.0.1:" % n)
                assert answer.body.endswith(b"Accept: a\r\nContent-Length: %d\r\n\r\nbody-%d" % (6 + (n > 9), n))
            before = len(connections)
            assert (await pool.request("GET", "/x", [], b"")).status == 200
            assert len(connections) == before

    asyncio.run(run())


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_only_a_read_is_repeated_if_the_server_has_closed_the_connection(method):
    async def answer(requests, writer):
        if len(requests) == 1:
            await echo(requests, writer)
        else:
            writer.close()

    async def run():
        async with server(answer) as (pool, connections):
            await pool.request("GET", "/1", [], b"")
            if method == "GET":
                assert (await pool.request(method, "/2", [], b"")).status == 200
                assert len(connections) == 2
            else:
                with pytest.raises(Unsent):
                    await pool.request(method, "/2", [], b"{}")
                assert len(connections) == 1

    asyncio.run(run())


def test_a_connection_that_the_server_closes_after_an_answer_is_not_used_again():
    async def answer(requests, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")

    async def run():
        async with server(answer) as (pool, connections):
            for _ in range(3):
                await pool.request("POST", "/", [], b"{}")
            assert [len(requests) for requests in connections] == [1, 1, 1]

    asyncio.run(run())


def test_an_old_connection_is_not_used_again():
    async def run():
        async with server(echo) as (pool, connections):
            await pool.request("POST", "/", [], b"{}")
            (idle,) = pool._idle
            idle.idle_since -= IDLE_SECONDS
            await pool.request("POST", "/", [], b"{}")
            assert [len(requests) for requests in connections] == [1, 1]

    asyncio.run(run())


def test_a_server_that_does_not_answer_is_given_up_and_the_connection_closed():
    async def answer(requests, writer):
        await asyncio.sleep(3600)

    async def run():
        async with server(answer) as (pool, _):
            pool._seconds = 0.05
            with pytest.raises(HttpError, match="no answer within"):
                await pool.request("POST", "/", [], b"{}")
            assert not pool._idle
            task = asyncio.create_task(pool.request("POST", "/", [], b"{}"))
            await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not pool._idle

    asyncio.run(run())


def test_what_a_server_sends_unasked_ends_the_connection():
    async def answer(requests, writer):
        await echo(requests, writer)
        await writer.drain()
        await asyncio.sleep(0.02)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    async def run():
        async with server(answer) as (pool, connections):
            await pool.request("POST", "/", [], b"{}")
            await asyncio.sleep(0.1)
            await pool.request("POST", "/", [], b"{}")
            assert len(connections) == 2

    asyncio.run(run())


def test_a_header_cannot_contain_another_line():
    async def run():
        async with server(echo) as (pool, _):
            with pytest.raises(ValueError, match="end of a line"):
                await pool.request("POST", "/", [("User-Agent", "a\r\nX: y")], b"{}")

    asyncio.run(run())


def test_a_server_that_is_not_there_is_an_error():
    async def run():
        pool = HttpPool("http://127.0.0.1:1", limit=1, seconds=1.0)
        with pytest.raises(OSError, match=r"refused|Connect"):
            await pool.request("GET", "/", [], b"")

    asyncio.run(run())
