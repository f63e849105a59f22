"""A scheduler whose pods may have to go: a cluster of facts, and the pods that run in it."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from deviceshare.model import (
    AnyFact,
    ConfigFact,
    GroupKey,
    Now,
    PodDisruptionBudgetFact,
    PodFact,
    PodGroupFact,
    PodRequest,
    PodUid,
    PriorityClassFact,
    QueueFact,
    Requirement,
)
from deviceshare.preemption import Preemption
from deviceshare.scheduler import Scheduler
from msgspec.structs import replace

from deviceshare_lab.clusters.facts import make_request

NOW = Now(10.0, 1_000_000.0)
PRIORITIES = {"": 0, "low": 10, "mid": 100, "high": 1000}
_ARGUMENTS = {"deviceshare.VGPUEnable": True, "deviceshare.GPUSharingEnable": True}


def conf(
    *tiers: str, actions: str = "enqueue, allocate, preempt, backfill", off: Iterable[str] = (), **more: Any
) -> str:
    """Return a configuration: the plugins of each tier separated by blanks; ``off``: ``plugin.enableX`` that are off.

    ``more`` are arguments of the plugin deviceshare.
    """
    switches = [each.split(".") for each in off]
    plugins = [
        [{"name": name, **{key: False for plugin, key in switches if plugin == name}} for name in tier.split()]
        for tier in tiers
    ]
    arguments = _ARGUMENTS | {f"deviceshare.{name}": value for name, value in more.items()}
    devices = {"name": "deviceshare", "arguments": arguments}
    return json.dumps(
        {
            "actions": actions,
            "tiers": [*({"plugins": tier} for tier in plugins), {"plugins": [devices]}],
        }
    )


USUAL = conf("priority gang conformance", off=["gang.enablePreemptable", "gang.enableReclaimable"])


def cpu(millicores: int, **rest: Any) -> PodRequest:
    """Return a pod that asks only CPU."""
    return make_request({"cpu": millicores}, **rest)


class PreemptionScene:
    """Nodes, and pods that wait or run: pods of one PodGroup have the priority of its class."""

    def __init__(self, *nodes: AnyFact, conf: str = USUAL, facts: Iterable[AnyFact] = ()) -> None:
        self.scheduler = Scheduler("s")
        self.facts: dict[str, AnyFact] = {}
        self._created = NOW.wall - 100.0
        self.put("config", ConfigFact(name="scheduler", text=conf, source="conf"))
        for name, value in PRIORITIES.items():
            if name:
                self.put(f"priority {name}", PriorityClassFact(name=name, value=value))
        for number, fact in enumerate((*nodes, *facts)):
            self.put(f"fact {number}", fact)
        self.scheduler.begin()

    def put(self, key: str, fact: AnyFact) -> None:
        """Apply a fact."""
        self.facts[key] = fact
        self.scheduler.apply(key, fact, NOW)

    def again(self) -> Scheduler:
        """Return a scheduler that has read the same facts, and nothing before."""
        scheduler = Scheduler("s")
        for key, fact in self.facts.items():
            scheduler.apply(key, fact, NOW)
        scheduler.begin()
        return scheduler

    def queue(self, name: str, **what: Any) -> None:
        """Add a queue."""
        self.put(f"queue {name}", QueueFact(name=name, **what))

    def budget(self, name: str, *, labels: Mapping[str, str], **what: Any) -> None:
        """Add a PodDisruptionBudget of namespace ns."""
        selector = tuple(Requirement(key, "In", (value,)) for key, value in sorted(labels.items()))
        self.put(f"budget {name}", PodDisruptionBudgetFact(key=f"ns/{name}", selector=selector, **what))

    def job(
        self, name: str, what: PodRequest, count: int = 1, *, on: Iterable[str] = (), level: str = "low",
        minimum: int = 1, queue: str = "default", group: Mapping[str, Any] | None = None, **rest: Any,
    ) -> list[PodFact]:  # fmt: skip
        """Add a PodGroup and its pods, which run on these nodes, or wait."""
        self._created += 1.0
        key = GroupKey(f"ns/{name}")
        self.put(
            f"group {name}",
            PodGroupFact(
                key=key, uid=f"pg-{name}", min_member=minimum, queue=queue, priority_class=level, phase="Running",
                admitted=True, created=self._created, **(group or {}),
            ),
        )  # fmt: skip
        nodes = list(on) or [""] * count
        found = [
            PodFact(
                uid=PodUid(f"uid-{name}-{at}"), namespace="ns", name=f"{name}-{at}", group=key, queue="default",
                ask=what, node=where, running=bool(where), created=self._created,
                **{"priority": PRIORITIES[level], "scheduler": "volcano", **rest},
            )
            for at, where in enumerate(nodes)
        ]  # fmt: skip
        for each in found:
            self.put(f"pod {each.uid}", each)
        return found

    def bind(self) -> list[str]:
        """Place what fits; the pods run then. Returns their names."""
        placed = self.scheduler.round(NOW).placed
        for number, (fact, placement, decision) in enumerate(placed):
            claim = self.scheduler.new_claim(f"c{number}-{fact.uid}", fact, placement, decision, NOW)
            self.scheduler.release(placement.node, fact.uid, again=False)
            running = bool(fact.podgroup)
            self.put(
                f"pod {fact.uid}",
                replace(fact, node=placement.node, running=running, held=claim.grants, signed=True),
            )
        return [fact.name for fact, _, _ in placed]

    def preempt(self, name: str) -> Preemption:
        """Return which pods go for a PodGroup."""
        return self.scheduler.preempt(GroupKey(f"ns/{name}"), NOW)
