"""The models of time, the bus and the API server."""

import asyncio
import random
import time

import pytest
from deviceshare_bus.streams.creation import make_streams
from deviceshare_bus.streams.publisher import Conflict, Publisher, Refused, Unknown, Write
from deviceshare_bus.streams.readback import read_back
from deviceshare_lab.world.apiserver import ApiServer, NotAllowed
from deviceshare_lab.world.jetstream import Stream
from deviceshare_lab.world.nats_client import SimulatedConnection
from deviceshare_lab.world.nats_server import Server
from deviceshare_lab.world.rest import parse
from deviceshare_lab.world.virtual_time import GRID, WALL, Deadlock, run
from nats.js.api import StreamConfig

POD = {"kind": "Pod", "metadata": {"name": "a", "namespace": "default"}, "spec": {}}
KEY = ("Pod", "default", "a")


def test_the_clock_jumps_to_the_next_timer():
    async def main():
        await asyncio.sleep(86_400.0)
        return asyncio.get_running_loop().time(), time.time() - WALL, random.random()

    began = time.monotonic()
    found = run(main, "1")
    assert found[:2] == (86_400.0, 86_400.0)
    assert time.monotonic() - began < 60.0
    assert run(main, "1") == found != run(main, "2")


def test_time_passes_while_a_task_waits_for_a_moment_just_ahead():
    async def main():
        loop = asyncio.get_running_loop()
        await asyncio.sleep(1.0)
        due = loop.time() + 1e-10
        while loop.time() < due:
            await asyncio.sleep(due - loop.time())
        return loop.time()

    assert run(main, "1") == pytest.approx(1.0 + GRID)


def test_tasks_that_wait_for_ever_are_a_deadlock():
    async def main():
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Deadlock):
        run(main, "1")


def test_a_stream_loses_its_latest_writes():
    stream = Stream(StreamConfig(name="LEDGER", max_msgs_per_subject=1))
    for number, subject in enumerate(("x", "y", "x", "z")):
        stream.write(subject, b"%d" % number, 0.0)
    assert [(each.sequence, each.subject) for each in stream] == [(2, "y"), (3, "x"), (4, "z")]
    assert stream.roll_back(2) == 2
    assert [(each.sequence, each.subject, each.data) for each in stream] == [(1, "x", b"0"), (2, "y", b"1")]
    assert stream.write("x", b"new", 0.0).sequence == 3
    assert stream.last_sequence_of("z") == 0


def on_the_bus(work):
    async def main():
        server = Server(random.Random(1), lambda stream, messages, writer: None)
        connection = SimulatedConnection(server, "test", random.Random(2))
        connection.listen(connection.requests.subject, connection.requests.answered)
        await make_streams(connection)
        return await work(server, connection, Publisher(connection))

    return run(main, "1")


def test_writes_are_compared_and_set():
    async def work(server, connection, publisher):
        assert await publisher.write(Write("ledger.1.n", b"a", 0)) == 1
        with pytest.raises(Conflict):
            await publisher.write(Write("ledger.1.n", b"b", 0))
        batch = [Write("ledger.1.n", b"c", 1), Write("ledger.2.m", b"d", 7)]
        with pytest.raises(Conflict):
            await (await publisher.send_atomic(batch))
        assert (await read_back(connection, "LEDGER", "ledger.1.n")).data == b"a"
        assert await read_back(connection, "LEDGER", "ledger.2.m") is None
        batch[1] = batch[1]._replace(expected=0)
        assert await (await publisher.send_atomic(batch)) == 3

    on_the_bus(work)


def test_faults_of_the_bus():
    async def work(server, connection, publisher):
        server.faults.lost_acks = 1.0
        with pytest.raises(Unknown):
            await publisher.write(Write("ledger.1.n", b"a", 0))
        server.faults.lost_acks = 0.0
        assert (await read_back(connection, "LEDGER", "ledger.1.n")).sequence == 1
        server.faults.disk_full = True
        with pytest.raises((Refused, Unknown)):
            await publisher.write(Write("ledger.1.n", b"b", 1))
        server.faults.disk_full = False
        server.stop()
        with pytest.raises(Unknown):
            await publisher.write(Write("ledger.1.n", b"b", 1))
        server.start()
        await connection.wait_connected()
        assert await publisher.write(Write("ledger.1.n", b"b", 1)) == 2

    on_the_bus(work)


def test_a_pod_is_bound_once():
    server = ApiServer(lambda: WALL)
    pod = server.create(POD)
    uid, version = pod["metadata"]["uid"], pod["metadata"]["resourceVersion"]
    with pytest.raises(NotAllowed, match="UID"):
        server.bind(KEY, "other", "n1", {}, "", "binder")
    with pytest.raises(NotAllowed, match="modified"):
        server.bind(KEY, uid, "n1", {}, str(int(version) - 1), "binder")
    server.bind(KEY, uid, "n1", {"a": "b"}, version, "binder")
    with pytest.raises(NotAllowed, match="already assigned"):
        server.bind(KEY, uid, "n2", {}, "", "binder")
    assert server.peek(*KEY)["metadata"]["annotations"] == {"a": "b"}


def test_paths_of_namespaces_and_of_objects_in_them():
    assert parse("/api/v1/namespaces") == ("Namespace", "", "", "")
    assert parse("/api/v1/namespaces/a") == ("Namespace", "", "a", "")
    assert parse("/api/v1/namespaces/a/pods") == ("Pod", "a", "", "")
    assert parse("/api/v1/namespaces/a/pods/b/binding") == ("Pod", "a", "b", "binding")
