"""Hostile messages of every kind on a real bus while the four services run: all other pods are scheduled."""

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
from deviceshare.model import Claim, NodeLedger, NodeOutcomes, PodFact
from deviceshare_bus.messages import subjects
from deviceshare_bus.messages.codec import encode
from deviceshare_bus.streams.publisher import Publisher, Write
from deviceshare_lab.checker.objects import violations
from support.bus_users import connect_to_run
from support.manifests import node, pod
from support.running import RunningSystem
from support.waiting import until

NODES, PODS = 10, 60
WRITERS = {
    "cluster": "inventory",
    "ledger": "placement",
    "explain": "placement",
    "outcome": "binder",
    "event": "binder",
}
"""By the first token of a subject, the user of the bus that may write it: a service that was taken over."""


def hostile(names: list[str], uids: list[str]) -> list[tuple[str, bytes]]:
    """Return invalid messages about the first two nodes and pods, and on subjects that no service writes."""
    first, second = names[:2]
    foreign = encode(NodeLedger(node=second, claims=(Claim(id="x", uid="y", namespace="a", name="b"),)))
    huge = msgspec.msgpack.encode({"node": first, "claims": [{"id": "c", "uid": "u", "namespace": "a", "name": "b",
        "grants": [["main", 0, "hami-core", [["GPU-0", 0, 2**63, 1]]]]}]})  # fmt: skip
    wrong = (subjects.partition(first) + 1) % 64
    deep = b"\x81\xa1z" + b"\x91" * 100_000 + b"\x00"
    return [
        ("ledger.x", b"?"),
        ("ledger.x", encode(NodeLedger(node="x"))),
        ("outcome.x", b"?"),
        ("outcome.x.y", encode(NodeOutcomes(node="y"))),
        ("cluster.pod", b"?"),
        ("cluster.other.x", b"?"),
        ("explain.x", b"?"),
        ("event.binder", b"?"),
        ("event.binder", deep),
        (f"ledger.{wrong}.{first}", encode(NodeLedger(node=first))),
        (subjects.ledger(first), foreign),
        (subjects.ledger(first), huge),
        (subjects.ledger(second), msgspec.msgpack.encode({"v": 3, "node": second, "claims": "later"})),
        (subjects.outcome(second), deep),
        (subjects.outcome(second), msgspec.msgpack.encode({"v": 2, "node": second})),
        (subjects.fact("pod", uids[0]), encode(PodFact(uid=uids[1], namespace="default", name="x"))),
        (subjects.fact("pod", uids[0]), b"\x81\xa4kind\xa2\xff\xff"),
        (subjects.fact("pod", "forged"), encode(PodFact(uid="forged", namespace="a", name="b", revision="9" * 6000))),
        (subjects.fact("node", names[2]), b"?"),
        (subjects.fact("node", names[2]), msgspec.msgpack.encode({"kind": "node", "name": names[2], "cards": [2**63]})),
    ]  # fmt: skip


@pytest.mark.parametrize("seed", [1])
async def test_other_nodes_and_pods_go_on(seed: int, tmp_path: Path) -> None:
    async with RunningSystem(tmp_path) as system:
        cluster = system.cluster
        await cluster.load([node(number) for number in range(NODES)])
        await cluster.load([pod(number) for number in range(PODS)])
        await system.bound(cluster, PODS, within=200)
        run = json.loads((tmp_path / "run" / "run.json").read_text())
        processes = {name: system.process(name) for name in ("inventory", "placement", "binder", "metrics")}
        connection = await connect_to_run(run, "reader")
        names = sorted(each["metadata"]["name"] for each in await cluster.list("Node"))
        uids = [each["metadata"]["uid"] for each in await cluster.list("Pod")]
        messages = hostile(names, uids)
        random.Random(seed).shuffle(messages)
        taken_over = {user: await connect_to_run(run, user) for user in set(WRITERS.values())}
        for subject, data in messages:
            await Publisher(taken_over[WRITERS[subject.partition(".")[0]]]).write(Write(subject, data))
        for each in taken_over.values():
            await each.close()
        await cluster.load([pod(PODS + number) for number in range(PODS)])
        await system.bound(cluster, 2 * PODS, within=200)
        assert {name: system.process(name) for name in processes} == processes, system.log
        paused = [subjects.ledger(names[0]), subjects.ledger(names[1])]
        for subject in paused:
            found = await connection.jetstream.get_last_msg("LEDGER", subject)
            assert found.data in [data for where, data in messages if where == subject], "it was overwritten"
        late = await cluster.list("Pod")
        there = [each["spec"]["nodeName"] for each in late if int(each["metadata"]["name"].split("-")[-1]) >= PODS]
        assert names[0] not in there
        assert names[1] not in there
        await asyncio.sleep(1.0)
        objects = [await cluster.list(kind) for kind in ("Node", "Pod", "Event", "PodGroup")]
        assert violations(*objects) == []
        await connection.close()


async def test_of_two_pods_with_one_uid_one_waits_until_the_other_is_deleted(tmp_path: Path) -> None:
    def with_uid(number: int) -> dict[str, Any]:
        manifest = pod(number)
        return {**manifest, "metadata": {**manifest["metadata"], "uid": "restored-from-a-backup"}}

    async def condition(name: str) -> str:
        read = await system.cluster.get("Pod", "default", name)
        return str(next((each["message"] for each in read["status"].get("conditions", ()) if "message" in each), ""))

    async with RunningSystem(tmp_path) as system:
        cluster = system.cluster
        await cluster.load([node(0), with_uid(0), with_uid(1), *(pod(number) for number in range(2, 6))])
        await system.bound(cluster, 5, within=200)
        bound = {each["metadata"]["name"] for each in await cluster.list("Pod") if each["spec"].get("nodeName")}
        (owner,) = bound - {f"pod-{number:05d}" for number in range(2, 6)}
        other = "pod-00001" if owner == "pod-00000" else "pod-00000"
        reason = await until(lambda: condition(other))
        assert f"Pod default/{other}: metadata.uid" in reason
        assert f"Pod default/{owner} has the same" in reason
        await cluster.delete("Pod", "default", owner)
        await system.bound(cluster, 5, within=200)
