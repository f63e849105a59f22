"""The metrics service as users run it: a process, a nats-server, HTTP."""

import asyncio
import json
import re
import signal
import socket
import sys
from contextlib import asynccontextmanager

import aiohttp
import msgspec
import pytest
from deviceshare.model import (
    Card,
    Claim,
    ContainerGrant,
    DeviceGrant,
    Explanation,
    Gone,
    NodeFact,
    NodeLedger,
    NodeOutcomes,
    Outcome,
    PodFact,
    Synced,
    trace_id,
)
from deviceshare_bus.cores.core import CaughtUp, Tick, Unreadable
from deviceshare_bus.cores.core_log import read_dump, replay
from deviceshare_bus.messages import subjects
from deviceshare_bus.messages.codec import Events, Step, encode
from deviceshare_bus.streams.creation import make_streams
from deviceshare_bus.streams.publisher import Publisher, Write
from deviceshare_bus.wire.connection import connect
from deviceshare_cli.ports import free_port
from deviceshare_metrics import api
from deviceshare_metrics.core import build_core, build_snapshot, decode_event
from deviceshare_metrics.core.events import FactReceived, StepsReceived
from deviceshare_metrics.service import main
from prometheus_client.parser import text_string_to_metric_families
from support.service import at_work
from support.waiting import until

UID = "0191d4c6-51a8-7f40-8b1e-5d8f1c1d2e3f"
NODE = NodeFact(name="gpu-1", cards=(Card("GPU-1", 0, 10, 11178, 100, "Tesla-P4", True, "hami-core"),))
POD = PodFact(uid=UID, namespace="default", name="vgpu-pod", scheduler="volcano")
GRANT = ContainerGrant("main", 0, "hami-core", (DeviceGrant("GPU-1", 0, 3000, 50),))
CLAIM = Claim(id="c1", uid=UID, namespace="default", name="vgpu-pod", decided_by="placement-0", grants=(GRANT,))
WAITING = PodFact(uid="u2", namespace="default", name="<b>big</b>", scheduler="volcano")
WHY_NOT = Explanation(
    uid="u2", namespace="default", name=WAITING.name, at=1.0, decision="pending", message="0/1 nodes: <script>"
)
STANDING = (
    (subjects.fact("node", "gpu-1"), NODE),
    (subjects.fact("pod", UID), POD),
    (subjects.fact("pod", "u2"), WAITING),
    (subjects.ledger("gpu-1"), NodeLedger(node="gpu-1", claims=(CLAIM,))),
    (subjects.explain("u2"), WHY_NOT),
    (
        subjects.event("placement"),
        Events(service="placement", instance="p", at=1.0, steps=(Step(UID, "default/vgpu-pod", "seen", 1.0),)),
    ),
    (subjects.SYNCED, Synced()),
)


class Client:
    """Writes to the bus as the other services do, reads over HTTP as users do."""

    def __init__(self, publisher, session):
        self.publisher = publisher
        self.session = session

    async def publish(self, *messages):
        for subject, message in messages:
            data = message if isinstance(message, bytes) else encode(message)
            await self.publisher.write(Write(subject, data))

    async def get(self, path, status=200):
        async with self.session.get(path) as answer:
            assert answer.status == status, await answer.text()
            return await answer.text()

    async def items(self, kind, type_):
        return msgspec.json.decode(await self.get(f"/api/v1/{kind}"), type=api.Items[type_]).items

    async def status(self):
        return msgspec.json.decode(await self.get("/api/v1/status"), type=api.ClusterStatus)

    async def until(self, true):
        async with asyncio.timeout(60):
            while True:
                try:
                    if await true():
                        return
                except (aiohttp.ClientError, AssertionError):
                    pass
                await asyncio.sleep(0.03)


async def start(url, port):
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "deviceshare_metrics", "--bus", url, "--metrics-port", str(port),
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip


async def stop(process):
    if process.returncode is None:
        process.send_signal(signal.SIGTERM)
    _, stderr = await asyncio.wait_for(process.communicate(), 60)
    return process.returncode, stderr.decode()


@asynccontextmanager
async def bus(url):
    connection = await connect(url, "test")
    await make_streams(connection)
    publisher = Publisher(connection)
    try:
        yield publisher
    finally:
        await connection.close()


@asynccontextmanager
async def running(url, standing=()):
    """The service at work on a bus where ``standing`` stands already; fails where it ends other than well."""
    port = free_port()
    async with bus(url) as publisher, aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
        client = Client(publisher, session)
        await client.publish(*standing)
        process = await start(url, port)
        try:
            await client.until(lambda: client.get("/readyz"))
            yield client
        finally:
            code, stderr = await stop(process)
            sys.stderr.write(stderr)
        assert code == 0


async def test_the_state_of_the_bus_is_served_and_changes_follow(nats_url):
    async with running(nats_url, STANDING) as client:
        assert await client.get("/healthz") == "ok"
        (node,) = await client.items("nodes", api.Node)
        assert (node.name, node.ready, node.pods, node.cards) == ("gpu-1", True, 1, 1)
        (card,) = await client.items("devices", api.Device)
        assert (card.id, card.memory_used, card.cores_used) == ("GPU-1", 3000, 50)
        big, small = await client.items("pods", api.Pod)
        assert (big.state, big.node, big.reason) == ("Pending", None, "0/1 nodes: <script>")
        assert (small.state, small.node, small.scheduler) == ("Claimed", "gpu-1", "volcano")
        assert small.devices == (api.PodDevice(container="main", id="GPU-1", memory=3000, cores=50),)
        (claim,) = await client.items("claims", api.Claim)
        assert (claim.state, claim.decided_by) == ("open", "placement-0")
        status = await client.status()
        assert (status.open_claims, status.synced, status.pods["Pending"]) == (1, True, 1)

        outcomes = NodeOutcomes(node="gpu-1", outcomes=(Outcome("c1", UID, "bound"),))
        await client.publish((subjects.outcome("gpu-1"), outcomes), (subjects.fact("pod", "u2"), Gone()))

        async def caught_up():
            status = await client.status()
            return status.pods["Bound"] == 1 and status.pods["Pending"] == 0 and status.open_claims == 0

        await client.until(caught_up)
        first, second = await client.status(), await client.status()
        assert 0 <= first.seconds_since_change <= second.seconds_since_change


async def test_a_pod_is_explained_and_an_unknown_pod_is_not_found(nats_url):
    async with running(nats_url, STANDING) as client:
        text = await client.get("/api/v1/pods/default/vgpu-pod/explain")
        answer = msgspec.json.decode(text, type=api.PodExplanation)
        assert [(step.service, step.step, step.time) for step in answer.steps] == [("placement", "seen", 1.0)]
        assert (answer.pod.state, answer.trace_id) == ("Claimed", trace_id(UID))
        answer = json.loads(await client.get("/api/v1/pods/default/%3Cb%3Ebig%3C%2Fb%3E/explain"))
        assert answer["explanation"]["message"] == "0/1 nodes: <script>"
        missing = json.loads(await client.get("/api/v1/pods/default/absent/explain", status=404))
        assert missing["error"].startswith("pod default/absent not found: ")


async def test_undecodable_messages_are_quarantined_counted_and_stop_nothing(nats_url):
    async with running(nats_url, STANDING) as client:
        await client.publish((subjects.fact("node", "gpu-1"), b"\xc1"), (subjects.explain("u3"), b"not msgpack"))

        async def counted():
            return (await client.status()).undecodable == 2

        await client.until(counted)
        families = text_string_to_metric_families(await client.get("/metrics"))
        undecodable = next(each for each in families if each.name == "deviceshare_undecodable_messages")
        assert {each.labels["stream"]: each.value for each in undecodable.samples} == {"CLUSTER": 1, "EXPLAIN": 1}
        assert [node.name for node in await client.items("nodes", api.Node)] == ["gpu-1"]
        await client.publish((subjects.fact("node", "gpu-2"), NodeFact(name="gpu-2")))

        async def goes_on():
            return len(await client.items("nodes", api.Node)) == 2

        await client.until(goes_on)


async def test_the_page_has_no_inline_code_and_no_text_of_users(nats_url):
    async with running(nats_url, STANDING) as client:
        async with client.session.get("/") as answer:
            page, policy = await answer.text(), answer.headers["Content-Security-Policy"]
        assert "'unsafe-inline'" not in policy
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert not re.search(r"<style|<script(?![^>]* src=)|\son\w+=|style=", page)
        assert "big" not in page
        links = re.findall(r'(?:href|src)="([^"#][^"]*)"', page)
        assert links
        for link in links:
            assert link.startswith("/")
            assert await client.get(link)
        await client.get("/ui/..%2Fapi.py", status=404)


async def test_a_wiped_bus_is_read_anew(nats_url):
    async with running(nats_url, STANDING) as client:
        connection = await connect(nats_url, "wiper")
        for stream in subjects.Stream:
            await connection.jetstream.delete_stream(stream)
        await make_streams(connection)
        await connection.close()
        await client.publish((subjects.fact("node", "new"), NodeFact(name="new")))

        async def read_anew():
            return [node.name for node in await client.items("nodes", api.Node)] == ["new"]

        await client.until(read_anew)
        assert await client.items("pods", api.Pod) == ()


async def test_a_replay_of_the_core_log_gives_the_same_commands_and_state(nats_url):
    async with bus(nats_url) as publisher:
        await Client(publisher, None).publish(*STANDING, (subjects.explain("u3"), b"not msgpack"))
        async with at_work(
            "metrics", main, nats_url, metrics_address="127.0.0.1", metrics_port=0, metrics_detail="card"
        ) as context:
            await until(lambda: context.detail() == {"nodes": 1, "pods": 2} and context.ready)
            await asyncio.sleep(0.1)
            path = context.dump_core_log()
    try:
        with path.open("rb") as file:
            header, entries = read_dump(file)
            core = build_core(header.arguments)
            replayed = list(replay(core, entries, decode_event))
    finally:
        path.unlink()
    assert all(each.identical for each in replayed)
    assert {type(each.event) for each in replayed} >= {FactReceived, StepsReceived, Unreadable, CaughtUp, Tick}
    (shown,) = build_snapshot(core.store).devices
    assert (shown.memory_used, core.tallies.steps) == (3000, {}), "the step is older than the process"


async def test_the_bus_may_go_and_come_back(nats_server):
    async with running(nats_server.url, STANDING) as client:
        nats_server.kill()
        await client.until(lambda: client.get("/healthz", status=503))
        assert len(await client.items("pods", api.Pod)) == 2
        await asyncio.to_thread(nats_server.start)
        await client.until(lambda: client.get("/healthz"))

        async def published():
            try:
                await client.publish((subjects.fact("node", "late"), NodeFact(name="late")))
            except Exception:  # the test's own connection may be slower
                return False
            return True

        await client.until(published)

        async def late():
            return len(await client.items("nodes", api.Node)) == 2

        await client.until(late)


async def test_a_taken_port_is_named_with_the_option_that_changes_it(nats_url):
    async with bus(nats_url):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            process = await start(nats_url, taken.getsockname()[1])
            _, stderr = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 1
    assert "--metrics-port" in stderr.decode()


@pytest.mark.parametrize("path", ["/api/v1/nothing", "/nothing"])
async def test_unknown_paths_are_not_found(nats_url, path):
    async with running(nats_url) as client:
        await client.get(path, status=404)
