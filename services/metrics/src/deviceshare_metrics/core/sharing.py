"""Equal parts of messages as one object: most of the memory of a large cluster are repetitions of few texts.

The names of namespaces, nodes, queues, containers and services, resources of pods and whole requests are in every
message about a pod. Decoded, each is an object of its own. Uids and names of pods are as many as the pods.
"""

from typing import Any, TypeVar

import msgspec
from deviceshare.model import Claim, ContainerGrant, NodeLedger, NodeOutcomes
from deviceshare_bus.messages import Step
from msgspec.structs import force_setattr

from deviceshare_metrics.core.facts import PodSeen

MOST_SHARED = 1 << 16
"""Values that are remembered. Beyond this number all are forgotten: later ones are shared among themselves."""

T = TypeVar("T", str, tuple[tuple[str, int], ...])


class SharedValues:
    """Replaces parts of decoded messages by equal ones of earlier messages. The messages stay equal."""

    def __init__(self, most: int = MOST_SHARED) -> None:
        self._most = most
        self._values: dict[Any, Any] = {}
        self._requests: dict[bytes, msgspec.Raw] = {}

    def __len__(self) -> int:
        return len(self._values) + len(self._requests)

    def value(self, value: T) -> T:
        """Return an earlier value that is equal to this one, if there is one."""
        found: T | None = self._values.get(value)
        if found is not None:
            return found
        if len(self._values) >= self._most:
            self._values.clear()
        self._values[value] = value
        return value

    def pod(self, pod: PodSeen) -> None:
        """Share the parts of a pod. Its request is copied: it would keep the bytes of the whole message."""
        self._share(pod, "namespace", "scheduler", "node", "queue")
        self._grants(pod.held)
        request = bytes(pod.ask)
        found = self._requests.get(request)
        if found is None:
            if len(self._requests) >= self._most:
                self._requests.clear()
            found = self._requests[request] = msgspec.Raw(request)
        force_setattr(pod, "ask", found)

    def ledger(self, ledger: NodeLedger) -> None:
        """Share the parts of all claims."""
        for claim in ledger.claims:
            self._claim(claim)

    def _claim(self, claim: Claim) -> None:
        self._share(claim, "namespace", "queue", "decided_by", "resources")
        self._grants(claim.grants)

    def outcomes(self, outcomes: NodeOutcomes) -> None:
        """Share the states of all outcomes."""
        for outcome in outcomes.outcomes:
            self._share(outcome, "state")

    def step(self, step: Step, uid: str, pod: str) -> Step:
        """Return a step with this object of its uid, and of its pod's name if that is equal."""
        return Step(
            uid,
            pod if pod == step.pod else step.pod,
            self.value(step.name),
            step.at,
            self.value(step.node),
            step.message,
        )

    def _grants(self, grants: tuple[ContainerGrant, ...]) -> None:
        for grant in grants:
            self._share(grant, "container", "family")

    def _share(self, message: msgspec.Struct, *fields: str) -> None:
        for field in fields:
            force_setattr(message, field, self.value(getattr(message, field)))
