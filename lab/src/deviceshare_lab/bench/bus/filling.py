"""A cluster that is nearly full, in several queues: what replicas of placement compete for."""

from collections.abc import Iterator

from deviceshare_bus.messages.subjects import of_replicas
from deviceshare_bus.wire.framing import Received
from deviceshare_cli.system import System
from deviceshare_cluster.interface import Object

from deviceshare_lab.bench.bus.workload import CARDS
from deviceshare_lab.clusters import objects

FILLED = "filled-"
"""Begins the names of the pods that fill nodes."""


def queues(count: int) -> Iterator[Object]:
    """Yield queues of equal weights."""
    for number in range(count):
        yield objects.queue(f"bench-{number}")


def fillers(nodes: int, cards: int) -> Iterator[Object]:
    """Yield pods each of which takes all cards of a node."""
    limits = {
        "cpu": "100m",
        "memory": "256Mi",
        "volcano.sh/vgpu-number": str(cards),
        "volcano.sh/vgpu-memory": str(CARDS.memory),
        "volcano.sh/vgpu-cores": str(CARDS.cores),
    }
    for number in range(nodes):
        yield objects.pod(f"{FILLED}{number:05d}", limits, namespace="bench")


class Attempts:
    """Counts the ledgers that placement sends to the bus, with those that the server refuses."""

    def __init__(self) -> None:
        self.ledgers = 0

    def begin(self, system: System) -> None:
        """Count from now on."""
        system.bus.listen("ledger.>", self._count)

    def _count(self, message: Received) -> None:
        self.ledgers += not of_replicas(message.subject)
