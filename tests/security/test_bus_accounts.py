"""What crosses the borders of accounts of nats-server: answers, deliveries, statuses, and nothing else."""

import asyncio
import json
from typing import Any

import msgspec
import pytest
from deviceshare_bus.messages.codec import decode_explanation
from deviceshare_bus.messages.permissions import BUS, MANAGING, SERVICES, USERS, account, allowed
from deviceshare_bus.messages.subjects import Stream, explain, ledger, outcome, status
from deviceshare_bus.streams.audit import DELIVERED
from deviceshare_bus.streams.consumers import ephemeral
from deviceshare_bus.streams.creation import CONSUMER_SECONDS, DAY
from deviceshare_bus.streams.publisher import Publisher, Write
from deviceshare_bus.streams.readback import read_back
from deviceshare_bus.wire.connection import Connection
from deviceshare_bus.wire.framing import Received
from nats.js.api import DeliverPolicy
from support.bus_users import Client, Users
from support.waiting import until

NODE = "node-1"
LARGE = 24
"""Messages of one MiB."""
CHANGING = {f"$JS.API.STREAM.{request}.{stream}" for request in ("CREATE", *MANAGING) for stream in Stream}
"""Requests that the denied ones leave out: what they do is no answer."""
OUTSIDE = [user for user in USERS if account(user) != BUS]


@pytest.mark.parametrize("user", OUTSIDE)
async def test_who_writes_nothing_cannot_have_answers_written(
    users: Users, sequences: dict[str, int], user: str
) -> None:
    """nats-server lets requests of other accounts be answered to subjects of its own choice."""
    client = Client()
    connection = await client.open(users, user)
    requests = [each for each in allowed(user).publish if each.startswith("$JS.API.") and each not in CHANGING]
    subjects = [ledger(NODE), outcome(NODE), explain("victim"), f"cluster.node.{NODE}", "event.placement"]
    for request in requests:
        for subject in subjects:
            await connection.publish(request, b"", reply=subject)
    await connection.request("$JS.API.INFO", b"")  # all were answered
    assert len(requests) >= len(Stream) + 2
    assert client.errors == []
    await connection.close()


async def test_who_writes_can_have_answers_sent_to_any_subject(users: Users) -> None:
    """The limit of this layer, in docs/security.md: nats-server does not check the subject of an answer.

    What arrives is JSON of nats-server, which is no message of ours: its readers put it in quarantine.
    """
    connection = await Client().open(users, "inventory")
    await connection.publish("$JS.API.STREAM.INFO.EVENT", b"", reply=explain("victim"))
    await connection.flush()
    reader = await users.connect("reader")
    async with asyncio.timeout(60):
        while not (await reader.jetstream.stream_info(Stream.EXPLAIN)).state.messages:
            await asyncio.sleep(0.05)
    stored = await read_back(reader, Stream.EXPLAIN, explain("victim"))
    assert stored is not None
    with pytest.raises(msgspec.MsgspecError):
        decode_explanation(stored.data)
    await reader.close()
    await connection.close()


async def test_a_stream_is_read_from_another_account(users: Users) -> None:
    """With flow control: after the first 2 MiB nats-server waits for answers to its requests."""
    inventory, reader = await users.connect("inventory"), await users.connect("reader")
    publisher = Publisher(inventory)
    before = (await reader.jetstream.stream_info(Stream.CLUSTER)).state.last_seq
    await asyncio.gather(*(publisher.write(Write(f"cluster.pod.{n}", bytes(1 << 20))) for n in range(LARGE)))
    received = 0

    def receive(message: Received) -> None:
        nonlocal received
        if message.reply.startswith(DELIVERED):
            received += len(message.data)
        elif reply := message.reply or message.field(b"Nats-Consumer-Stalled").decode():
            stalls.append(reply)
            reader.client.send(reply)

    stalls: list[str] = []
    listening = reader.listen(inbox := reader.client.new_inbox(), receive)
    start = {"deliver_policy": DeliverPolicy.BY_START_SEQUENCE, "opt_start_seq": before + 1}
    await reader.jetstream.add_consumer(Stream.CLUSTER, ephemeral(inbox, "cluster.>", 1.0, **start))
    await until(lambda: received >= LARGE << 20)
    assert stalls
    assert all(reply.startswith("$JS.FC.CLUSTER.") for reply in stalls)
    listening.end()
    await inventory.close()
    await reader.close()


@pytest.mark.parametrize("user", ["reader", "admin"])
async def test_statuses_are_requested_from_other_accounts(users: Users, user: str) -> None:
    """Each replica answers, and to a subject that only nats-server knows: no service can answer for another one."""
    asking = await users.connect(user)
    heard: list[bytes] = []
    replies: list[str] = []
    connections = []
    for service in SERVICES:
        for replica in range(2):
            connection = await users.connect(service)

            def answer(
                message: Received, connection: Connection = connection, text: str = f"{service} {replica}"
            ) -> None:
                replies.append(message.reply)
                connection.client.send(message.reply, text.encode())

            connection.listen(status(service), answer)
            await connection.client.flush()
            connections.append(connection)
    reply = asking.client.new_inbox()
    asking.listen(reply, lambda message: heard.append(message.data))
    for service in SERVICES:
        asking.client.send(status(service), b"", reply)
    await until(lambda: len(heard) >= len(connections))
    assert sorted(heard) == sorted(f"{service} {replica}".encode() for service in SERVICES for replica in range(2))
    assert all(each.startswith("_R_.") for each in replies)
    assert len(set(replies)) >= len(SERVICES)
    for each in (asking, *connections):
        await each.close()


@pytest.mark.parametrize("kind", [{}, {"name": "mine"}, {"deliver_subject": "_INBOX.reader.a"}])
async def test_a_consumer_without_a_reader_does_not_stay(users: Users, kind: dict[str, str]) -> None:
    """A user may create any number of consumers, also pull consumers and such that the request names."""
    client = Client()
    connection = await client.open(users, "reader")

    async def create(seconds: float) -> dict[str, Any]:
        config = {"ack_policy": "none", "mem_storage": True, "inactive_threshold": int(seconds * 1e9), **kind}
        request = json.dumps({"stream_name": "LEDGER", "config": config}).encode()
        answer: dict[str, Any] = json.loads((await connection.request("$JS.API.CONSUMER.CREATE.LEDGER", request)).data)
        return answer

    year = 365 * DAY
    assert "inactive" in (await create(year))["error"]["description"]
    assert (await create(0))["config"]["inactive_threshold"] <= CONSUMER_SECONDS * 1e9
    await connection.close()
