"""Scrapes: one computation for all that wait, used again for a while, compressed, bounded."""

import asyncio
import gzip
import threading
from collections.abc import Iterator

import aiohttp
import pytest
from deviceshare.model import PodFact
from deviceshare_bus.messages import subjects
from deviceshare_bus.runtime.service_metrics import ServiceMetrics
from deviceshare_bus.web.metric_formats import FORMATS, PLAIN, accepted_format
from deviceshare_metrics import scrapes
from deviceshare_metrics.__main__ import options
from deviceshare_metrics.scrapes import MAX_FORMATS, MAX_SECONDS, REUSE, Scrapes, Text, gzip_accepted
from deviceshare_metrics.sections import Piece
from deviceshare_metrics.server import Server, serve
from prometheus_client.exposition import choose_encoder
from support.metrics import catch_up, read, started

OPENMETRICS = "application/openmetrics-text; version=1.0.0"


class Source:
    """Counts its texts; each takes ``seconds`` of a clock that only it moves."""

    def __init__(self, seconds: float = 1.0) -> None:
        self.seconds = seconds
        self.now = 100.0
        self.texts = 0
        self.at_once = 0
        self.threads: set[str] = set()
        self.go = asyncio.Event()
        self.go.set()

    async def expose(self, accept: str) -> tuple[Iterator[Piece], str]:
        self.texts += 1
        self.at_once += 1
        assert self.at_once == 1, "two computations at once"
        await self.go.wait()
        return self._parts(f"{accept} {self.texts}"), "unused"

    def _parts(self, text: str) -> Iterator[Piece]:
        self.threads.add(threading.current_thread().name)
        yield Piece("", text.encode())
        yield Piece("", b" end")
        self.now += self.seconds
        self.at_once -= 1

    def scrapes(self) -> Scrapes:
        return Scrapes(self.expose, lambda: self.now)


async def plain(text: Text) -> bytes:
    return b"".join([part async for part in text.plain()])


async def test_a_text_is_computed_in_a_thread_and_compressed() -> None:
    source = Source()
    text = await source.scrapes().get("text/plain")
    assert gzip.decompress(text.compressed) == b"text/plain 1 end" == await plain(text)
    assert source.threads
    assert threading.current_thread().name not in source.threads


async def test_concurrent_scrapes_share_one_text() -> None:
    source = Source()
    found = source.scrapes()
    source.go.clear()
    waiting = [asyncio.create_task(found.get("")) for _ in range(20)]
    await asyncio.sleep(0.01)
    source.go.set()
    texts = await asyncio.gather(*waiting)
    assert source.texts == 1
    assert len({id(text) for text in texts}) == 1


@pytest.mark.parametrize(("seconds", "used"), [(1.0, REUSE), (60.0, MAX_SECONDS)])
async def test_a_text_is_used_as_long_as_it_was_expensive(seconds: float, used: float) -> None:
    source = Source(seconds)
    found = source.scrapes()
    first = await found.get("")
    source.now += used - 0.01
    assert await found.get("") is first
    source.now += 0.02
    assert await found.get("") is not first
    assert source.texts == 2


async def test_formats_are_computed_one_after_the_other_and_few_are_kept() -> None:
    source = Source(0.001)
    found = source.scrapes()
    await asyncio.gather(*map(found.get, FORMATS))
    assert source.texts == len(FORMATS) > MAX_FORMATS
    assert len(found._latest) == MAX_FORMATS
    assert not found._computing


async def test_versions_that_clients_invent_are_no_formats() -> None:
    source = Source()
    found = source.scrapes()
    source.go.clear()
    kinds = ("application/openmetrics-text", "text/plain")
    headers = [f"{kind}; version=1.0.{end}; escaping={end}" for kind in kinds for end in (*range(1, 100), "x", "=")]
    waiting = [asyncio.create_task(found.get(accept)) for accept in headers]
    await asyncio.sleep(0.01)
    assert len(found._computing) == 1
    source.go.set()
    assert {text.content_type for text in await asyncio.gather(*waiting)} == {choose_encoder("")[1]}
    assert source.texts == 1


@pytest.mark.parametrize("accept", FORMATS)
def test_a_format_selects_itself_and_has_its_own_content_type(accept: str) -> None:
    assert accepted_format(accept) == accept
    assert len({choose_encoder(each)[1] for each in FORMATS}) == len(FORMATS)


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", PLAIN),
        ("*/*", PLAIN),
        ("text/plain;version=0.0.4;q=0.5, */*;q=0.1", PLAIN),
        ("application/openmetrics-text", "application/openmetrics-text; version=1.0.0; escaping=underscores"),
        (
            "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
            "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,"
            "text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
            "application/openmetrics-text; version=1.0.0; escaping=allow-utf-8",
        ),
        ("text/plain; version=1.0.0; escaping=dots", "text/plain; version=1.0.0; escaping=dots"),
        ("application/openmetrics-text; version=1.0.x, text/plain; version=1.0.0", FORMATS[5]),
    ],
)
def test_what_clients_accept(accept: str, expected: str) -> None:
    assert accepted_format(accept) == expected


async def test_a_service_answers_a_version_that_is_none() -> None:
    _, content_type = await ServiceMetrics("placement", "placement-0").expose(
        None, "application/openmetrics-text; version=1.0.x"
    )
    assert content_type == choose_encoder("")[1]


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("", False), ("gzip", True), ("br, GZIP;q=0.5", True), ("gzip; q=1.000", True), ("gzip;q=0.001", True),
        ("gzip;q=0", False), ("gzip; q=0.0", False), ("gzip;q=", False), ("gzip;q=x", False), ("identity", False),
    ],
)  # fmt: skip
def test_whether_a_client_accepts_gzip(header: str, expected: bool) -> None:
    assert gzip_accepted(header) is expected


async def test_the_answer_to_head_has_no_body() -> None:
    core = started()
    catch_up(core)
    runner = await serve(Server(core, lambda: True, detail="cluster").app(), "127.0.0.1", 0)
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", runner.addresses[0][1])
        writer.write(b"HEAD /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
    finally:
        await runner.cleanup()
    assert head.startswith(b"HTTP/1.1 200 ")
    assert body == b""


async def test_a_client_that_goes_away_ends_nothing() -> None:
    source = Source()
    found = source.scrapes()
    source.go.clear()
    gone, waits = asyncio.create_task(found.get("")), asyncio.create_task(found.get(""))
    await asyncio.sleep(0.01)
    gone.cancel()
    await asyncio.sleep(0.01)
    source.go.set()
    assert (await waits).compressed
    assert source.texts == 1


async def test_an_error_is_that_of_each_request_and_not_kept() -> None:
    async def fail(accept: str) -> tuple[Iterator[Piece], str]:
        raise RuntimeError("no")

    found = Scrapes(fail)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="no"):
            await found.get("")
    assert not found._computing


async def test_a_large_text_is_decompressed_in_small_parts() -> None:
    many = b"".join(b"x%d\n" % (number * 7919) for number in range(500_000))

    async def large(accept: str) -> tuple[Iterator[Piece], str]:
        return iter([Piece("", many)]), "text/plain"

    text = await Scrapes(large).get("")
    parts = [part async for part in text.plain()]
    assert b"".join(parts) == many
    assert max(map(len, parts)) < 1 << 21


async def test_http(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrapes, "REUSE", 0.0)
    core = started()
    catch_up(core)
    runner = await serve(Server(core, lambda: True, detail="cluster").app(), "127.0.0.1", 0)
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/metrics"
    try:
        async with aiohttp.ClientSession(auto_decompress=False) as session:
            async with session.get(url, headers={"Accept-Encoding": "deflate, gzip;q=0.9"}) as answer:
                assert answer.headers["Content-Encoding"] == "gzip"
                compressed = gzip.decompress(await answer.read()).decode()
            async with session.get(url, headers={"Accept-Encoding": "identity"}) as answer:
                assert "Content-Encoding" not in answer.headers
                assert answer.headers["Vary"] == "Accept, Accept-Encoding"
                assert answer.content_type == "text/plain"
                assert 'deviceshare_pods{state="pending"} 0.0' in (await answer.text()).splitlines()
            read((subjects.fact("pod", "1"), PodFact(uid="1", namespace="x", name="a")), into=core)
            async with session.get(url, headers={"Accept-Encoding": "identity", "Accept": OPENMETRICS}) as answer:
                text = await answer.text()
                assert text.endswith("# EOF\n")
                assert 'deviceshare_pods{state="pending"} 1.0' in text.splitlines()
    finally:
        await runner.cleanup()
    assert 'deviceshare_pods{state="pending"} 0.0' in compressed.splitlines()


def test_the_option(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert options.parse_args([]).metrics_detail == "card"
    assert options.parse_args(["--metrics-detail", "node"]).metrics_detail == "node"
    with pytest.raises(SystemExit):
        options.parse_args(["--metrics-detail", "pod"])
    assert "'pod' is not valid: expected card, node or cluster" in capsys.readouterr().err
