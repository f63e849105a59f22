"""The five streams of the bus and the subjects in them.

Each stream has one kind of writer and keeps the last message of every subject (EVENT keeps all messages for a day).
Subjects of LEDGER and OUTCOME begin with the partition of the node, by which binder replicas divide the nodes.
"""

from enum import StrEnum
from typing import NamedTuple
from zlib import crc32

PARTITIONS = 64
"""The number of partitions of nodes. Part of the wire format: it never changes."""


class Stream(StrEnum):
    """The streams, by their names on the server."""

    CLUSTER = "CLUSTER"
    LEDGER = "LEDGER"
    OUTCOME = "OUTCOME"
    EXPLAIN = "EXPLAIN"
    EVENT = "EVENT"


SYNCED = "cluster.synced"
FACT_KINDS = frozenset({"node", "pod", "podgroup", "priorityclass", "queue", "config"})
"""The kinds of facts: ``cluster.<kind>.<key>``."""
TOMBSTONE_SECONDS = 3600.0
"""Seconds for which the server keeps the last message about an object that is gone, for readers that were away."""


class Address(NamedTuple):
    """What a subject of a stream names.

    ``kind`` is one of :data:`FACT_KINDS`, ``synced``, ``ledger``, ``outcome``, ``explain`` or ``event``. ``key`` is the
    name, uid, ``namespace/name`` (PodGroups), node or service that its message must name as well.
    """

    kind: str
    key: str


def address(subject: str) -> Address | None:
    """Return what a subject names, None for a subject that no service writes."""
    tokens = subject.split(".")
    if not all(tokens) or "*" in tokens or ">" in tokens or any(map(str.isspace, subject)):
        return None
    match tokens:
        case ["cluster", "synced"]:
            return Address("synced", "")
        case ["cluster", "podgroup", namespace, _, *_]:
            return Address("podgroup", f"{namespace}/{subject.split('.', 3)[3]}")
        case ["cluster", kind, _, *_] if kind in FACT_KINDS and kind != "podgroup":
            return Address(kind, subject.split(".", 2)[2])
        case ["ledger" | "outcome" as kind, number, _, *_] if number == str(partition(node := node_of(subject))):
            return Address(kind, node)
        case ["explain" | "event" as kind, _, *_]:
            return Address(kind, subject.split(".", 1)[1])
    return None


def partition(node: str) -> int:
    """Return the partition of a node, 0 to 63."""
    return crc32(node.encode()) % PARTITIONS


def fact(kind: str, key: str) -> str:
    """Return the subject of a fact.

    ``cluster.node.<name>``, ``cluster.pod.<uid>``, ``cluster.podgroup.<namespace>.<name>``, …
    """
    return f"cluster.{kind}.{key.replace('/', '.')}"


def ledger(node: str) -> str:
    """Return the subject of all claims on a node."""
    return f"ledger.{partition(node)}.{node}"


def node_of(subject: str) -> str:
    """Return the node of a valid subject of LEDGER or OUTCOME; names of nodes may contain dots."""
    return subject.split(".", 2)[2]


def outcome(node: str) -> str:
    """Return the subject of the outcomes of the claims on a node."""
    return f"outcome.{partition(node)}.{node}"


def explain(uid: str) -> str:
    """Return the subject of the latest explanation of a pod."""
    return f"explain.{uid}"


def event(service: str) -> str:
    """Return the subject of a service on EVENT."""
    return f"event.{service}"


def status(service: str = "*") -> str:
    """Return the subject of requests for the status of a service."""
    return f"status.{service}"
