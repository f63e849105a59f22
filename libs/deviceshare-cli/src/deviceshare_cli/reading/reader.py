"""The interface of a source of read commands."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

import msgspec
from deviceshare_cluster.interface import Object
from deviceshare_metrics import api
from deviceshare_metrics.api_dashboard import Queue

T = TypeVar("T", bound=msgspec.Struct)

ITEMS: Mapping[str, type[msgspec.Struct]] = {
    "nodes": api.Node,
    "devices": api.Device,
    "drivers": api.DriverDevices,
    "pods": api.Pod,
    "claims": api.Claim,
    "queues": Queue,
}
"""The lists of the JSON API and the types of their items."""


class StoredMessage(msgspec.Struct, frozen=True, array_like=True):
    """A message of a stream of the bus."""

    stream: str
    subject: str
    sequence: int
    data: bytes


class Target(NamedTuple):
    """How a source is named in messages."""

    name: str
    schedulers: tuple[str, ...]


class Reader(Protocol):
    """Answers the questions of read commands. Every method raises CommandError if the source does not answer."""

    target: Target

    @property
    def now(self) -> float:
        """The time of the answers, unix seconds."""
        ...

    async def items(self, kind: type[T], state: str = "") -> tuple[T, ...]:
        """Return the items of a list of the JSON API, in its order; ``state``: those in it."""
        ...

    async def explain(self, namespace: str, name: str) -> api.PodExplanation:
        """Return what is known of a pod. Raises NotFoundError if it is unknown."""
        ...

    async def objects(self, kind: str) -> list[Object]:
        """Return the Kubernetes objects of a kind, in the order of namespace and name. Raises NotAllowedError."""
        ...

    async def object(self, kind: str, namespace: str, name: str) -> Object | None:
        """Return one Kubernetes object, None if it does not exist."""
        ...

    async def messages(self, streams: Sequence[str]) -> list[StoredMessage]:
        """Return the messages of streams of the bus: the last of each subject; of EVENT all messages."""
        ...


def in_order(objects: Sequence[Object]) -> list[Object]:
    """Return objects in the order of namespace and name."""
    return sorted(objects, key=lambda each: (each["metadata"].get("namespace", ""), each["metadata"]["name"]))
