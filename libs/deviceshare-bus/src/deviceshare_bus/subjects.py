"""The five streams of the bus and the subjects in them.

Each stream has one kind of writer and keeps the last message of every subject (EVENT keeps all messages for a day).
Subjects of LEDGER and OUTCOME begin with the partition of the node, by which binder replicas divide the nodes.
"""

from enum import StrEnum
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
    """Return the node of a subject of LEDGER or OUTCOME; names of nodes may contain dots."""
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
