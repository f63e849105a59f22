"""Objects of a small cluster of shared cards: nodes, and pods that wait or are on a card, and its snapshot."""

from collections.abc import Sequence
from typing import Any

import msgspec
from deviceshare.model import ConfigFact, Synced
from deviceshare_bus.messages.subjects import SYNCED
from deviceshare_cli.reading.snapshot import SnapshotFile
from deviceshare_cli.simulate.facts import Inventory, messages
from deviceshare_lab.clusters import objects
from deviceshare_lab.clusters.cards import vgpu

MEMORY = 10_000
"""MiB of each card."""
CREATED = "2001-09-09T01:46:40Z"
SLOTS = 10
"""The most pods of each card."""
REPLICA_SET = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web", "controller": True}


def node(name: str, cards: int = 1, **spec: Any) -> dict[str, Any]:
    """Return a node with the cards ``NAME-0``, ``NAME-1``, …"""
    published = vgpu([f"{name}-{at}" for at in range(cards)], "NVIDIA-T4", MEMORY, SLOTS, "hami-core")
    return objects.node(name, {"cpu": "64", "memory": "256Gi"}, published.annotations, **spec)


def waiting(name: str, memory: int, **spec: Any) -> dict[str, Any]:
    """Return a pod that requests a part of a card."""
    limits = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": str(memory)}
    pod = objects.pod(name, limits, scheduler="volcano", **spec)
    pod["metadata"]["uid"] = name
    return pod


def placed(name: str, card: str, memory: int, *, owner: dict[str, Any] | None = REPLICA_SET) -> dict[str, Any]:
    """Return a running pod on the card ``NODE-NUMBER``, which ``owner`` controls."""
    on = card.rpartition("-")[0]
    pod = waiting(name, memory, nodeName=on)
    pod["metadata"]["annotations"] = {"volcano.sh/vgpu-ids-new": f"{card},NVIDIA,{memory},0:;"}
    pod["metadata"]["ownerReferences"] = [owner] if owner else []
    pod["status"] = {"phase": "Running"}
    return pod


def snapshot(
    published: Sequence[dict[str, Any]], pods: Sequence[dict[str, Any]], conf: ConfigFact | None = None
) -> bytes:
    """Return a snapshot of a system that has published the facts of objects; ``pods``: the Pod objects in the file."""
    # A pod without a timestamp waits since 1970, and nodes are reserved for it.
    created = [{**each, "metadata": {"creationTimestamp": CREATED, **each["metadata"]}} for each in published]
    facts = Inventory(("volcano",), conf).exist(created)
    content = SnapshotFile(
        at=1e9,  # CREATED
        target="test",
        schedulers=("volcano",),
        objects={"Pod": tuple(msgspec.Raw(msgspec.json.encode(pod)) for pod in pods)},
        messages=tuple(messages({**facts, SYNCED: Synced()})),
    )
    return msgspec.json.encode(content)
