"""A cluster whose pods are all bound, as objects of the cluster and as messages of LEDGER, OUTCOME and EVENT."""

from collections.abc import Iterator
from typing import NamedTuple

from deviceshare.families import BY_NAME, SERVED
from deviceshare.model import BOUND, Choice, Claim, ContainerGrant, DeviceGrant, NodeLedger, NodeOutcomes, Outcome
from deviceshare_bus.messages import subjects
from deviceshare_bus.messages.codec import Events, Step, encode
from deviceshare_bus.streams.publisher import Write
from deviceshare_cluster.interface import Object

from deviceshare_lab.bench.bus import workload
from deviceshare_lab.clusters import objects

NAMESPACE = "bench"
TEMPLATES = 10
"""Pod templates, in turn: each requests another part of a card and another amount of CPU."""
STEPS = {"inventory": "seen", "placement": "claimed", "binder": "bound"}
"""The services that write the messages, and the step that each reports."""
_STEPS = 250
"""Steps in a message."""


class _Template(NamedTuple):
    """The request of a pod: MiB and percent of a card, and millicores of CPU."""

    memory: int
    cores: int
    cpu: int


class Contents(NamedTuple):
    """The numbers of nodes, cards on each node, and bound pods; ``at`` (unix seconds) is when they were bound."""

    nodes: int
    cards: int
    pods: int
    at: float

    def node_objects(self) -> Iterator[Object]:
        """Yield the nodes."""
        return workload.nodes(self.nodes, self.cards)

    def pod_objects(self) -> Iterator[Object]:
        """Yield the bound pods."""
        family = BY_NAME["hami-core"]
        for number in range(self.pods):
            claim, node = self._claim(number), _node(number % self.nodes)
            pod = new_pod(claim.name, number)
            pod["metadata"]["uid"] = claim.uid
            pod["metadata"]["annotations"] = {**family.annotations(claim, node, ["main"], self.at), SERVED: "true"}
            pod["spec"]["nodeName"] = node
            pod["status"] = {"phase": "Running"}
            yield pod

    def writes(self, service: str) -> Iterator[Write]:
        """Yield the messages of a service: placement's of LEDGER, the binder's of OUTCOME, and each one's of EVENT."""
        for number in range(self.nodes):
            if service == "placement":
                yield self._ledger(number)
            elif service == "binder":
                yield self._outcomes(number)
        for start in range(0, self.pods, _STEPS):
            numbers = range(start, min(start + _STEPS, self.pods))
            steps = tuple(self._step(number, STEPS[service]) for number in numbers)
            message = Events(service=service, instance=f"{service}-0", at=self.at, steps=steps)
            yield Write(subjects.event(service), encode(message))

    def _ledger(self, number: int) -> Write:
        name = _node(number)
        return Write(subjects.ledger(name), encode(NodeLedger(node=name, claims=tuple(self._claims(number)))))

    def _outcomes(self, number: int) -> Write:
        name = _node(number)
        outcomes = tuple(Outcome(claim.id, claim.uid, BOUND, "", self.at) for claim in self._claims(number))
        return Write(subjects.outcome(name), encode(NodeOutcomes(node=name, outcomes=outcomes)))

    def _claims(self, node: int) -> Iterator[Claim]:
        return (self._claim(number) for number in range(node, self.pods, self.nodes))

    def _claim(self, number: int) -> Claim:
        name, uid = f"bench-{number:06d}", f"00000000-0000-4000-8000-{number:012d}"
        node, card = number % self.nodes, number // self.nodes % self.cards
        template = _template(number)
        device = DeviceGrant(f"GPU-{node:05d}-{card}", card, template.memory, template.cores)
        score = 10.0 + number % 800 / 10
        choice = Choice(
            nodes=self.nodes, feasible=self.nodes - number % self.nodes, policy="binpack", weight=10, score=score,
            plugins=("nodeorder", "binpack"), weighted_score=10 * score,
        )  # fmt: skip
        return Claim(
            id=f"bench-{number:016x}", uid=uid, namespace=NAMESPACE, name=name, group=f"pod/{uid}", queue="default",
            decided_by="placement", decided_at=self.at, seen_at=self.at,
            resources=(("cpu", template.cpu), ("memory", 256 << 20)), choice=choice,
            grants=(ContainerGrant("main", 0, "hami-core", (device,)),),
        )  # fmt: skip

    def _step(self, number: int, name: str) -> Step:
        claim = self._claim(number)
        node = "" if name == "seen" else _node(number % self.nodes)
        return Step(claim.uid, f"{NAMESPACE}/{claim.name}", name, self.at, node)


def new_pod(name: str, number: int = 0) -> Object:
    """Return a pod with the request of the one of this number that is not bound."""
    template = _template(number)
    limits = {
        "cpu": f"{template.cpu}m",
        "memory": "256Mi",
        "volcano.sh/vgpu-number": "1",
        "volcano.sh/vgpu-memory": str(template.memory),
        "volcano.sh/vgpu-cores": str(template.cores),
    }
    return objects.pod(name, limits, namespace=NAMESPACE)


def _template(number: int) -> _Template:
    # Ten pods of any of them fit on a card.
    kind = number % TEMPLATES
    return _Template(memory=1024 + 200 * kind, cores=5 + kind // 2, cpu=100 + 10 * kind)


def _node(number: int) -> str:
    return f"node-{number:05d}"
