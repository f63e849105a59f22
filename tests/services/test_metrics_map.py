"""The map of cards, its changes, its history, and the stream of changes."""

import asyncio
import gzip
import socket
from contextlib import asynccontextmanager
from itertools import pairwise

import aiohttp
import msgspec
import pytest
from deviceshare.model import Card, CardCordon, Gone, NodeFact
from deviceshare_bus.messages import subjects
from deviceshare_bus.messages.subjects import fact
from deviceshare_metrics import api, change_stream
from deviceshare_metrics.api_dashboard import CardChanges, CardMap, NodeDetail, StreamEnd
from deviceshare_metrics.card_map import CardRows, MapHistory, RecordedMap
from deviceshare_metrics.core.card_rows import card_rows
from deviceshare_metrics.core.changed_nodes import ChangedNodes
from deviceshare_metrics.server import Server, serve
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from support.metrics import catch_up, read
from support.metrics_messages import CARD, claim, events, explain, grants, ledger, node, outcome, pod, step
from support.waiting import until

MIG = Card("GPU-1", 0, 7, 40960, 100, "A100", True, "mig")


def rows(core):
    return {row.name: row for row in card_rows(core.store)}


async def shown(core, since=""):
    everything = CardRows(core)
    return msgspec.json.decode(await everything.all(), type=CardMap)


async def test_the_map_shows_usage_slices_and_states():
    core = read(node(ready=False), node("n2", cards=(MIG,)), ledger(claim()), pod())
    found = {row.name: row for row in (await shown(core)).nodes}
    assert (found["n1"].state, found["n1"].pods) == ("not_ready", 1)
    (cell,) = found["n1"].cards
    assert (cell.memory_used, cell.cores_used, cell.slots_used, cell.healthy, cell.slices) == (1024, 10, 1, True, ())
    (kind,) = found["n1"].kinds
    assert (kind.type, kind.mode, kind.memory, kind.cores, kind.slots) == ("Tesla-P4", "hami-core", 11178, 100, 10)
    assert found["n2"].cards[0].memory_used == 0


def test_the_largest_free_share_of_a_card():
    core = read(node(cards=(CARD, replace(CARD, id="GPU-2", index=1, healthy=False))))
    assert [cell.largest_free for cell in rows(core)["n1"].cards] == [11178, 0]
    read(ledger(claim(grants=grants(memory=178, cores=50))), into=core)
    assert [cell.largest_free for cell in rows(core)["n1"].cards] == [11000, 0]
    read(ledger(claim(grants=grants(memory=178, cores=100))), into=core)
    assert [cell.largest_free for cell in rows(core)["n1"].cards] == [0, 0]


def test_a_cordoned_card_is_marked():
    cards = (replace(CARD, cordoned=True), replace(CARD, id="GPU-2", index=1))
    core = read(node(cards=cards, cordons=(CardCordon(CARD.id, "alice"),)))
    assert [(cell.cordoned, cell.largest_free) for cell in rows(core)["n1"].cards] == [(True, 0), (False, 11178)]


def test_cards_that_are_a_plain_number_are_shown_in_use_first():
    core = read(node(cards=(), allocatable={"nvidia.com/gpu": 3}, labels={"nvidia.com/gpu.product": "V100"}))
    row = rows(core)["n1"]
    assert [(kind.type, kind.mode) for kind in row.kinds] == [("V100", "whole")]
    assert [cell.cores_used for cell in row.cards] == [0, 0, 0]
    read(ledger(claim(grants=(), resources=(("nvidia.com/gpu", 2),))), into=core)
    assert [cell.cores_used for cell in rows(core)["n1"].cards] == [100, 100, 0]


CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("node"), st.sampled_from("nmo"), st.booleans()),
        st.tuples(st.just("gone"), st.sampled_from("nmo")),
        st.tuples(st.just("pod"), st.sampled_from("ab"), st.sampled_from(["", "n", "m", "o"]), st.booleans()),
        st.tuples(st.just("podgone"), st.sampled_from("ab")),
        st.tuples(st.just("claim"), st.sampled_from("nmo"), st.sets(st.sampled_from("ab"))),
    ),
    max_size=25,
)


def message_of(change):
    match change:
        case ("node", name, ready):
            return node(name, ready=ready)
        case ("gone", name):
            return fact("node", name), Gone()
        case ("pod", name, where, ended):
            return pod(name, node=where, ended=ended, held=grants() if where else ())
        case ("podgone", name):
            return fact("pod", f"uid-{name}"), Gone()
        case (_, name, pods):
            return ledger(*(claim(each) for each in sorted(pods)), node=name)


@settings(max_examples=150)
@given(CHANGES, st.lists(st.integers(0, 24), max_size=4))
def test_rows_of_changed_nodes_are_those_of_the_whole_state(changes, reads):
    async def compare():
        core = read()
        known, position = {}, (await (current := CardRows(core)).refresh())
        for at, change in enumerate(changes):
            read(message_of(change), into=core)
            if at in reads or at == len(changes) - 1:
                after = await current.refresh()
                changed = msgspec.json.decode(current.changes(position), type=CardChanges)
                known |= {row.name: row for row in changed.nodes}
                for name in changed.gone:
                    known.pop(name, None)
                position = after
                assert known == rows(core)

    asyncio.run(compare())


def test_nodes_that_are_gone_are_forgotten_beyond_a_bound():
    nodes = ChangedNodes(most_gone=2)
    for number in range(5):
        nodes.node(f"n{number}", gone=False)
    start = nodes.position
    for number in range(5):
        nodes.node(f"n{number}", gone=True)
    assert nodes.since(start) is None, "a reader from before reads everything again"
    assert nodes.since(nodes.position) == []
    assert set(nodes.since(nodes.position - 1)) == {"n4"}
    nodes.touch("n0")
    nodes.touch("unknown")
    assert set(nodes.since(nodes.position - 1)) == {"n4"}


def test_a_position_of_another_process_is_not_known():
    core = read(node())
    first, second = CardRows(core), CardRows(core)
    position = asyncio.run(first.refresh())
    assert first.changes(position) is not None
    for bad in (position.replace("-", "x"), "", "-1", f"{position}0", "é-٣"):
        assert second.changes(bad) is None
        assert first.changes(bad) is None


def test_the_history_covers_a_day_and_is_bounded():
    history = MapHistory(most_bytes=1000)
    for minute in range(3000):
        history.add(RecordedMap(minute * 60.0, 1, 2, b"x" * 10))
        assert history.size <= 1000
    times = [frame.at for frame in history.contents({}).frames]
    assert times[-1] == 2999 * 60.0
    assert times[0] <= times[-1] - 20 * 3600, "thinned out, not cut off"
    assert times[0] > times[-1] - 24 * 3600
    assert all(earlier < later for earlier, later in pairwise(times))


async def test_a_map_of_the_past():
    history = MapHistory()
    assert history.find(5.0) is None
    for at in (10.0, 20.0):
        await history.record(at, b"at %d" % at, 0, 0)
    found = [gzip.decompress(history.find(at)) for at in (1.0, 10.0, 15.0, 20.0, 99.0)]
    assert found == [b"at 10", b"at 10", b"at 10", b"at 20", b"at 20"]


@asynccontextmanager
async def serving(core):
    server = Server(core, connected=lambda: True)
    runner = await serve(server.app(), "127.0.0.1", 0)
    address = "http://{}:{}".format(*runner.addresses[0][:2])
    try:
        async with aiohttp.ClientSession(address) as session:
            yield server, session
    finally:
        await runner.cleanup()


class Reader:
    """Reads server-sent events."""

    def __init__(self, answer):
        self._answer = answer

    async def next(self, wanted):
        while True:
            block = (await asyncio.wait_for(self._answer.content.readuntil(b"\n\n"), 60)).decode()
            fields = dict(line.split(": ", 1) for line in block.strip().splitlines())
            if fields.get("event") == wanted:
                return fields


async def test_a_client_gets_changes_after_its_position_and_goes_on_after_a_loss():
    core = read(node())
    catch_up(core)
    async with serving(core) as (server, session):
        async with session.get("/api/v1/cards") as answer:
            position = msgspec.json.decode(await answer.read(), type=CardMap).position
        read(ledger(claim()), into=core)
        async with session.get("/api/v1/changes", params={"since": position}) as answer:
            reader = Reader(answer)
            event = await reader.next("cards")
            (row,) = msgspec.json.decode(event["data"], type=CardChanges).nodes
            assert row.cards[0].memory_used == 1024
            assert msgspec.json.decode((await reader.next("status"))["data"], type=api.ClusterStatus)
            assert server.dashboard.stream.clients == 1
        read(node("n2"), (fact("node", "n1"), Gone()), into=core)
        async with session.get("/api/v1/changes", headers={"Last-Event-ID": event["id"]}) as answer:
            changed = msgspec.json.decode((await Reader(answer).next("cards"))["data"], type=CardChanges)
            assert ([row.name for row in changed.nodes], changed.gone) == (["n2"], ("n1",))
        async with session.get("/api/v1/changes", params={"since": "other-1"}) as answer:
            end = msgspec.json.decode((await Reader(answer).next("reset"))["data"], type=StreamEnd)
            assert "/api/v1/cards" in end.reason
            assert await answer.content.read() == b""


async def test_the_number_of_clients_is_bounded(monkeypatch):
    monkeypatch.setattr(change_stream, "MAX_CLIENTS", 2)
    async with serving(read(node())) as (server, session):
        async with session.get("/api/v1/cards") as answer:
            position = msgspec.json.decode(await answer.read(), type=CardMap).position
        query = {"since": position}
        async with (
            session.get("/api/v1/changes", params=query),
            session.get("/api/v1/changes", params=query),
            session.get("/api/v1/changes", params=query) as answer,
        ):
            assert answer.status == 503
            assert "2 clients" in (await answer.json())["error"]
        await until(lambda: not server.dashboard.stream.clients)


async def test_a_slow_client_is_dropped_with_the_reason(monkeypatch):
    monkeypatch.setattr(change_stream, "SLOW", 0.5)
    cards = tuple(Card(f"GPU-{at}", at, 10, 11178, 100, "Tesla-P4" * 100, True, "hami-core") for at in range(64))
    core = read(*((fact("node", f"n{at}"), NodeFact(name=f"n{at}", cards=cards)) for at in range(200)))
    async with serving(core) as (server, session):
        async with session.get("/api/v1/cards") as answer:
            position = msgspec.json.decode(await answer.read(), type=CardMap).position
        host, port = session._base_url.host, session._base_url.port
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect((host, port))
            client.setblocking(False)
            request = f"GET /api/v1/changes?since={position} HTTP/1.1\r\nHost: {host}\r\n\r\n"
            await asyncio.get_running_loop().sock_sendall(client, request.encode())
            async with asyncio.timeout(60):
                while not server.dashboard.stream.clients:
                    await asyncio.sleep(0.01)
                while server.dashboard.stream.clients:
                    for at in range(200):
                        core.changed_nodes.touch(f"n{at}")
                    await asyncio.sleep(0.02)
                received = b""
                while data := await asyncio.get_running_loop().sock_recv(client, 1 << 20):
                    received += data
    assert b"event: dropped" in received[-2000:]
    assert b"did not read for 0.5 seconds" in received[-2000:]


async def test_the_detail_of_a_node_and_the_history_over_http():
    core = read(
        node(), ledger(claim()), pod(), outcome("bound"), node("plain", cards=()), events("b", step("bound", 61.0))
    )
    catch_up(core)
    async with serving(core) as (server, session):
        async with session.get("/api/v1/nodes/n1") as answer:
            detail = msgspec.json.decode(await answer.read(), type=NodeDetail)
        assert detail.devices[0].pods == ("default/a",)
        assert ([pod.name for pod in detail.pods], [each.state for each in detail.claims]) == (["a"], ["bound"])
        async with session.get("/api/v1/nodes/absent") as answer:
            assert (answer.status, await answer.json()) == (404, {"error": "node absent not found"})
        async with session.get("/api/v1/history/5") as answer:
            assert answer.status == 404
        recording = asyncio.create_task(server.dashboard.record(lambda: 100.0))
        async with asyncio.timeout(60):
            while not (history := await (await session.get("/api/v1/history")).json())["frames"]:
                await asyncio.sleep(0.01)
        recording.cancel()
        assert history == {"frames": [[100.0, 0, 1]], "minutes": [[60.0, {"bound": 1}]]}
        async with session.get("/api/v1/history/100") as answer:
            past = msgspec.json.decode(await answer.read(), type=CardMap)
            assert answer.headers["Content-Encoding"] == "gzip"
        async with session.get("/api/v1/history/100", headers={"Accept-Encoding": "identity"}) as answer:
            assert "Content-Encoding" not in answer.headers
            assert msgspec.json.decode(await answer.read(), type=CardMap) == past
        assert [row.name for row in past.nodes] == ["n1", "plain"]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("pods?state=bound&limit=1", ["a"]),
        ("devices?node=n2", []),
        ("claims?namespace=default", ["a"]),
        ("pods?x=1", 400),
    ],
)
async def test_lists_are_filtered_over_http(path, expected):
    async with (
        serving(read(node(), ledger(claim()), pod(), outcome("bound"), pod("b"))) as (_, session),
        session.get(f"/api/v1/{path}") as answer,
    ):
        body = await answer.json()
    assert (answer.status if answer.status != 200 else [item["name"] for item in body["items"]]) == expected


def test_the_life_cycle_of_a_bound_and_of_a_waiting_pod():
    steps = events("s", step("seen", 1.0), step("pending", 2.0), step("claimed", 4.5), step("bound", 6.0))
    core = read(
        node(), ledger(claim(seen_at=1.5, decided_at=4.0, sent_at=4.2)), pod(node="n1"), outcome("bound"), steps
    )
    life = explain(core, "default", "a").life
    assert [(each.name, each.at, each.state) for each in life] == [
        ("seen", 1.0, "done"), ("queued", 1.5, "done"), ("decided", 4.0, "done"), ("claimed", 4.2, "done"),
        ("handed_over", 0.0, "done"), ("bound", 6.0, "done"),
    ]  # fmt: skip
    core = read(pod(), events("s", step("seen", 1.0), step("pending", 2.0)))
    life = explain(core, "default", "a").life
    assert [each.state for each in life] == ["done", "done", "current", "open", "open", "open"]
    read((subjects.fact("pod", "uid-a"), Gone()), into=core)
    assert [each.state for each in explain(core, "default", "a").life] == [
        "done",
        "done",
        "open",
        "open",
        "open",
        "open",
    ]
