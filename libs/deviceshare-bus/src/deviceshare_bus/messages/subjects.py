"""The five streams of the bus and the subjects in them.

Each stream has one kind of writer and keeps the last message of every subject (EVENT keeps all messages for a day).
Subjects of LEDGER and OUTCOME begin with the partition of the node, by which binder replicas divide the nodes.
"""

import re
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple, get_args
from zlib import crc32

from deviceshare.model import AnyFact, Fact, Gone, Synced

PARTITIONS = 64
"""The number of partitions of nodes. Part of the wire format: it never changes."""

_OF_REPLICAS = ("lease", "fence")
"""Kinds of messages by which replicas divide their work (:mod:`.leases`), in the stream that their service writes."""


class Stream(StrEnum):
    """The streams, by their names on the server."""

    CLUSTER = "CLUSTER"
    LEDGER = "LEDGER"
    OUTCOME = "OUTCOME"
    EXPLAIN = "EXPLAIN"
    EVENT = "EVENT"


def kind_of(fact: type[Fact]) -> str:
    """Return the kind of a type of facts, as in their subjects and messages."""
    return str(fact.__struct_config__.tag)


SYNCED = "cluster.synced"
NAMED_BY = {kind_of(each): each.named_by for each in get_args(AnyFact) if each not in (Gone, Synced)}
"""By kind of fact, the field that repeats the key of its subject."""
FACT_KINDS = frozenset(NAMED_BY)
"""The kinds of facts: ``cluster.<kind>.<key>``."""
_NAMESPACED = frozenset(kind for kind, field in NAMED_BY.items() if field == "key")
"""Kinds of facts whose key is ``namespace/name``."""
TOMBSTONE_SECONDS = 3600.0
"""Seconds for which the server keeps the last message about an object that is gone, for readers that were away."""


_SUBJECT = re.compile(r"[^.*>\s]+(?:\.[^.*>\s]+)+")
"""A subject without wildcards, of two tokens at least."""


class Address(NamedTuple):
    """What a subject of a stream names.

    ``kind`` is one of :data:`FACT_KINDS`, ``synced``, ``ledger``, ``lease``, ``fence``, ``outcome``, ``explain`` or
    ``event``. ``key`` is the name, uid, ``namespace/name`` (PodGroups and volume claims), node, ``service.member``
    (leases and fences) or service that its message must name as well.
    """

    kind: str
    key: str


@lru_cache(1 << 14)
def address(subject: str) -> Address | None:
    """Return what a subject names, None for a subject that no service writes."""
    if _SUBJECT.fullmatch(subject) is None:
        return None
    first, _, key = subject.partition(".")
    match first:
        case "ledger" | "outcome":
            number, _, node = key.partition(".")
            if number in _OF_REPLICAS:
                return Address(number, node) if "." in node else None
            return Address(first, node) if node and number == str(partition(node)) else None
        case "explain" | "event":
            return Address(first, key)
        case "cluster":
            kind, _, name = key.partition(".")
            if kind in _NAMESPACED:
                return Address(kind, name.replace(".", "/", 1)) if "." in name else None
            if kind in FACT_KINDS and name:
                return Address(kind, name)
            if kind in _OF_REPLICAS:
                return Address(kind, name) if "." in name else None
            return Address("synced", "") if key == "synced" else None
    return None


def partition(node: str) -> int:
    """Return the partition of a node, 0 to 63."""
    return crc32(node.encode()) % PARTITIONS


def fact(kind: str, key: str) -> str:
    """Return the subject of a fact.

    ``cluster.node.<name>``, ``cluster.pod.<uid>``, ``cluster.podgroup.<namespace>.<name>``, …
    """
    return f"cluster.{kind}.{key.replace('/', '.')}"


def subject_of(content: Fact) -> str:
    """Return the subject of a fact of an object."""
    return fact(kind_of(type(content)), getattr(content, content.named_by))


def ledger(node: str) -> str:
    """Return the subject of all claims on a node."""
    return f"ledger.{partition(node)}.{node}"


def lease(stream: Stream, service: str, member: str) -> str:
    """Return the subject of the lease of a member of a service that writes a stream."""
    return f"{stream.lower()}.lease.{service}.{member}"


def fence(stream: Stream, service: str, member: str) -> str:
    """Return the subject that has a message once a member of a service has ended."""
    return f"{stream.lower()}.fence.{service}.{member}"


def of_replicas(subject: str) -> bool:
    """Return whether a subject is of a lease or a fence."""
    return subject.split(".", 2)[1] in _OF_REPLICAS


def node_of(subject: str) -> str:
    """Return the node of a valid subject of a ledger or of OUTCOME; names of nodes may contain dots."""
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
