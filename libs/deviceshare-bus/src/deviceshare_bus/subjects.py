"""The five streams of the bus and the subjects in them.

Each stream has one kind of writer and keeps the last message of every subject (EVENT keeps all, for a day). The
ledger's and the outcomes' subjects begin with a partition of the node's name, so that binder replicas can divide the
nodes among them.
"""

from enum import StrEnum
from zlib import crc32

PARTITIONS = 64
"""How many partitions node names fall into. Part of the wire format: it never changes."""


class Stream(StrEnum):
    """The streams, by the names that the server knows."""

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
    """Return the node of a subject of LEDGER or OUTCOME; names of nodes have dots."""
    return subject.split(".", 2)[2]


def outcome(node: str) -> str:
    """Return the subject of the outcomes of the claims on a node."""
    return f"outcome.{partition(node)}.{node}"


def explain(uid: str) -> str:
    """Return the subject of the last answer to "why" for a pod."""
    return f"explain.{uid}"


def event(service: str) -> str:
    """Return the subject of a service's steps in the life of pods."""
    return f"event.{service}"


def status(service: str = "*") -> str:
    """Return the subject on which a service answers how far it has read and what it has open."""
    return f"status.{service}"
