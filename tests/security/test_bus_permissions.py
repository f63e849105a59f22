"""Who may do what on the bus: what nats-server denies, by user and subject, and what it cannot deny.

:data:`DENIED` is the table of denied actions. Each is tried on a real nats-server as the user, with the right key.
"""

import asyncio
import json
from pathlib import Path
from typing import NamedTuple

import nats
import nats.errors
import pytest
from deviceshare.model import Claim, ConfigError, ContainerGrant, DeviceGrant, NodeLedger
from deviceshare_bus.messages.codec import encode
from deviceshare_bus.messages.permissions import SERVICES, USERS, allowed
from deviceshare_bus.messages.subjects import Stream, explain, ledger, outcome
from deviceshare_bus.wire.connection import connect
from deviceshare_bus.wire.credentials import Credentials
from deviceshare_cli.credentials.keys import new_seed
from support.bus_users import Client, Users

NODE = "node-1"
LAYER = "permissions of the bus"


class Denied(NamedTuple):
    """An action that is denied to a user: to publish on a subject, or to subscribe to it."""

    who: str
    what: str
    subject: str
    subscribe: bool = False
    layer: str = LAYER


WRITES = {
    "a claim": ledger(NODE),
    "an outcome": outcome(NODE),
    "a fact about a node": f"cluster.node.{NODE}",
    "the configuration of the scheduler": "cluster.config.scheduler",
    "that the cluster is synced": "cluster.synced",
    "a lease of placement": "ledger.lease.placement.a",
    "a fence of the binder": "outcome.fence.binder.a",
    "an explanation": explain("uid"),
    "a step of placement": "event.placement",
    "a step of the binder": "event.binder",
    "a step of metrics": "event.metrics",
}
OWN = {
    "inventory": {"a fact about a node", "the configuration of the scheduler", "that the cluster is synced"},
    "placement": {"a claim", "a lease of placement", "an explanation", "a step of placement"},
    "binder": {"an outcome", "a fence of the binder", "a step of the binder"},
}
REQUESTS = {
    "delete a stream": "STREAM.DELETE.LEDGER",
    "create a stream": "STREAM.CREATE.LEDGER",
    "change a stream": "STREAM.UPDATE.LEDGER",
    "empty a stream": "STREAM.PURGE.LEDGER",
    "delete a message": "STREAM.MSG.DELETE.LEDGER",
    "delete an explanation": "STREAM.MSG.DELETE.EXPLAIN",
    "make another server lead": "STREAM.LEADER.STEPDOWN.LEDGER",
    "copy a stream": "STREAM.SNAPSHOT.LEDGER",
    "replace a stream": "STREAM.RESTORE.LEDGER",
    "read a message to any subject": f"DIRECT.GET.CLUSTER.cluster.node.{NODE}",
    "make a pull consumer's messages arrive anywhere": "CONSUMER.MSG.NEXT.CLUSTER.c",
    "make a durable consumer": "CONSUMER.DURABLE.CREATE.CLUSTER.c",
    "make a consumer that the subject names": "CONSUMER.CREATE.CLUSTER.c",
    "delete a consumer": "CONSUMER.DELETE.CLUSTER.c",
    "list the consumers": "CONSUMER.NAMES.CLUSTER",
}
BY_USER = {
    "placement": {"delete an explanation"},
    "setup": {"create a stream"},
    "admin": {
        "delete a stream", "create a stream", "change a stream", "empty a stream", "delete a message",
        "delete an explanation",
    },
}  # fmt: skip

DENIED = [
    *(Denied(who, f"write {what}", to) for who in USERS for what, to in WRITES.items() if what not in OWN.get(who, ())),
    *(
        Denied(who, what, f"$JS.API.{request}")
        for who in USERS
        for what, request in REQUESTS.items()
        if what not in BY_USER.get(who, ())
    ),
    *(Denied(who, f"read {stream}", f"$JS.API.CONSUMER.CREATE.{stream}") for who, stream in (
        ("inventory", "LEDGER"), ("inventory", "OUTCOME"), ("inventory", "EXPLAIN"), ("inventory", "EVENT"),
        ("placement", "EVENT"), ("binder", "EVENT"), *(("setup", stream) for stream in Stream),
    )),
    *(Denied(who, "hear all answers", "_INBOX.>", True) for who in USERS),
    *(Denied(who, "hear another's answers", "_INBOX.placement.>", True) for who in USERS if who != "placement"),
    *(Denied(who, "answer for another service", "status.placement", True) for who in USERS if who != "placement"),
    *(Denied(who, f"answer {whose}", f"_INBOX.{whose}.1") for who in USERS for whose in USERS),
    *(Denied(who, "hear requests of other accounts", "_R_.>", True) for who in USERS),
    *(Denied(who, "hear every message", ">", True) for who in USERS),
    *(Denied(who, "hear advisories", "$JS.EVENT.>", True) for who in USERS),
    *(Denied(who, "hear LEDGER past its stream", "ledger.>", True) for who in USERS if who != "admin"),
    *(Denied(who, "ask for the status of a service", "status.binder") for who in (*SERVICES, "setup")),
    *(Denied(who, "ask the system account", "$SYS.REQ.SERVER.PING") for who in USERS),
]  # fmt: skip


def test_the_table_is_long_enough_to_be_one() -> None:
    assert len(DENIED) >= 40
    assert len(set(DENIED)) == len(DENIED)
    assert {each.who for each in DENIED} == set(USERS)


@pytest.mark.parametrize("user", USERS)
async def test_what_a_user_has_no_right_to_is_denied(users: Users, sequences: dict[str, int], user: str) -> None:
    """All of a user in one connection: a connection for each action would take a minute."""
    client = Client()
    connection = await client.open(users, user)
    for action in (each for each in DENIED if each.who == user):
        client.errors.clear()
        client.heard.clear()
        if action.subscribe:
            await connection.subscribe(action.subject)
        else:
            await connection.publish(action.subject, b"{}", reply=connection.new_inbox())
        async with asyncio.timeout(60):
            await client.heard.wait()
        assert "permissions violation" in client.errors[0], action
        assert action.subject.lower() in client.errors[0], action
    await connection.close()


async def say(url: str, *lines: str) -> list[str]:
    """Return what nats-server says to a client without credentials that sends some lines."""
    host, _, port = url.removeprefix("nats://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write("".join(f"{line}\r\n" for line in lines).encode())
    try:
        async with asyncio.timeout(60):
            return (await reader.read()).decode().splitlines()  # it ends the connection
    finally:
        writer.close()


async def test_an_anonymous_client_is_denied(users: Users, sequences: dict[str, int]) -> None:
    delete = ("PUB $JS.API.STREAM.DELETE.LEDGER 0", "")
    said = await say(users.url, "CONNECT {}", *delete)
    assert "-ERR 'Authorization Violation'" in said
    async with asyncio.timeout(60):
        with pytest.raises(ConfigError, match="credentials that nats-server accepts"):
            await connect(users.url, "anonymous")


async def test_the_key_of_no_user_is_denied(users: Users, tmp_path: Path) -> None:
    seed = tmp_path / "seed.nk"
    seed.write_text(new_seed())
    async with asyncio.timeout(60):
        with pytest.raises(ConfigError, match="--bus-credentials") as caught:
            await connect(users.url, "stranger", credentials=Credentials(seed=str(seed), user="setup"))
    assert seed.read_text() not in str(caught.value)


def forged_claim() -> bytes:
    """Return a ledger with a claim of 39,000 MiB that placement has not decided."""
    grant = ContainerGrant("main", 0, "vgpu", (DeviceGrant("gpu-0", 0, 39000, 0),))
    claim = Claim(id="forged", uid="uid", namespace="default", name="forged", grants=(grant,))
    return encode(NodeLedger(node=NODE, claims=(claim,)))


@pytest.mark.parametrize("user", [user for user in USERS if user != "placement"])
async def test_a_forged_claim_does_not_reach_the_ledger(users: Users, sequences: dict[str, int], user: str) -> None:
    client = Client()
    connection = await client.open(users, user)
    with pytest.raises(nats.errors.TimeoutError):
        await connection.request(ledger(NODE), forged_claim(), timeout=0.2)
    assert "permissions violation" in client.errors[0]
    await connection.close()


async def test_a_batch_is_denied_as_its_messages_are(users: Users, sequences: dict[str, int]) -> None:
    client = Client()
    connection = await client.open(users, "binder")
    headers = {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "1", "Nats-Batch-Commit": "1"}
    with pytest.raises(nats.errors.TimeoutError):
        await connection.request(ledger(NODE), forged_claim(), timeout=0.2, headers=headers)
    await connection.close()


async def test_a_consumer_does_not_carry_messages_into_another_stream(users: Users) -> None:
    """nats-server takes any subject of delivery; without a subscriber nothing is delivered, and a stream is none."""
    client = Client()
    connection = await client.open(users, "binder")
    await connection.publish(outcome(NODE), forged_claim())
    config = {"deliver_subject": ledger(NODE), "deliver_policy": "all", "ack_policy": "none", "mem_storage": True}
    request = {"stream_name": "OUTCOME", "config": {**config, "inactive_threshold": 5_000_000_000}}
    answer = json.loads(
        (await connection.request("$JS.API.CONSUMER.CREATE.OUTCOME", json.dumps(request).encode())).data
    )
    assert "error" not in answer
    await asyncio.sleep(0.5)
    reader = await users.connect("reader")
    assert (await reader.jetstream.stream_info(Stream.LEDGER)).state.last_seq == 0
    await reader.close()
    await connection.close()


FORGING = {
    "subjects": {"subjects": ["event.>", "status.metrics"]},
    "republish": {"republish": {"src": "event.>", "dest": "outcome.7.n"}},
    "sources": {"sources": [{"name": "OUTCOME"}]},
    "mirror": {"mirror": {"name": "OUTCOME"}, "subjects": None},
    "subject_transform": {"subject_transform": {"src": "event.>", "dest": "event.x.>"}},
}
"""Configurations of a stream by which it copies messages to other subjects."""


@pytest.mark.parametrize("change", FORGING)
async def test_the_set_up_step_cannot_change_where_messages_go(users: Users, change: str) -> None:
    """Its key is in a pod that always runs, and with a changed stream every message can be forged."""
    client = Client()
    connection = await client.open(users, "setup")
    before = json.loads((await connection.request("$JS.API.STREAM.INFO.EVENT", b"")).data)["config"]
    changed = json.dumps(before | FORGING[change]).encode()
    with pytest.raises(nats.errors.TimeoutError):
        await connection.request("$JS.API.STREAM.UPDATE.EVENT", changed, timeout=0.2)
    assert "permissions violation" in client.errors[0]
    assert "error" in json.loads((await connection.request("$JS.API.STREAM.CREATE.EVENT", changed)).data)
    after = json.loads((await connection.request("$JS.API.STREAM.INFO.EVENT", b"")).data)["config"]
    assert after == before
    await connection.close()


def test_each_message_is_written_by_one_user_only() -> None:
    for subject in WRITES.values():
        writers = [user for user in USERS if _allows(allowed(user).publish, subject)]
        assert len(writers) == (0 if subject == "event.metrics" else 1), subject


def _allows(subjects: tuple[str, ...], subject: str) -> bool:
    return any(subject == each or (each.endswith(".>") and subject.startswith(each[:-1])) for each in subjects)
