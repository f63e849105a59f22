"""What users and operators do during a run: pods, gangs, Jobs, nodes and configuration come and go.

It keeps no state of its own but what it has to restore: what exists is read from the cluster before each step, since
any request may fail or have an unknown outcome. There is room for every pod that does not have the label
:data:`MAY_WAIT`, whatever the others occupy, once :meth:`Workload.restore` was called: with preemption fillers occupy
it, which go for the others.
"""

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

from deviceshare.model import InputError
from deviceshare_cluster.interface import ClusterError, Object
from deviceshare_localcluster import LocalCluster

from deviceshare_lab.clusters import manifests, objects
from deviceshare_lab.clusters.fields import GROUP, has_ended

log = logging.getLogger("deviceshare.chaos")

FAMILY = "chaos/family"
MAY_WAIT = "chaos/may-wait"
"""Labels of pods."""
PODS_PER_NODE = {
    "hami-core": 3,
    "mig": 1,
    "mps": 3,
    "gpu-share": 4,
    "gpu-number": 1,
    "hami-vnpu": 2,
    "mindcluster": 1,
}
"""Pods of each family that certainly fit on a node of two cards, in whatever way the others are distributed."""
GANG = (2, 3)
CAPPED = "capped"
"""A queue in which only some of its pods have room."""
PAUSE = 0.4
"""Seconds between two steps of a round, at most."""
SLOWER = 1.05
"""How much longer each pause is than the one before: long faults need no more work than short ones."""
ENDED = 20
"""Pods that have ended, or are of others, at most."""
WAITING = 6
"""Pods that may wait, at most, besides fillers."""
FILLERS = 10
"""Pods of the lowest priority that may wait, for each node of one family and each family, at most."""
PRIORITIES = {"filler": 1, "guarded": 10, "usual": 1000}
"""The PriorityClasses of a workload whose pods go for others."""
GUARDED = {"chaos/budget": "guarded"}
"""The labels of the pods that a PodDisruptionBudget counts: one of them has to stay."""
ENDS = (0, 300, 1000, 5000)
"""Milliseconds that a filler takes to end, to choose from."""


class Workload:
    """Changes a cluster, at random.

    ``preempts``: pods of lower priority go for others, by the action ``preempt``. All are in one queue then.
    """

    def __init__(self, cluster: LocalCluster, chance: random.Random, nodes: int, *, preempts: bool = False) -> None:
        self._cluster, self._chance, self._nodes = cluster, chance, nodes
        self._preempts = preempts
        self._queues = ("default",) if preempts else ("default", "research")
        self._number = 0
        self.churn: Counter[str] = Counter()
        """How often each action succeeded, by name."""
        self._actions: tuple[tuple[int, Callable[[], Awaitable[None]]], ...] = (
            (8, self._add_pod),
            (3, self._add_gang),
            (2, self._add_job),
            (1, self._add_waiting_pod),
            (6, self._delete_pod),
            (2, self._finish_pod),
            (1, self._recreate_pod),
            (1, self._remove_node),
            (1, self._add_node),
            (1, self._cordon),
            (1, self._lose_node),
            (1, self._change_policy),
            (1, self._break_configuration),
            *(((3, self._add_fillers), (2, self._add_guarded_pod)) if preempts else ()),
        )

    async def prepare(self) -> None:
        """Create the nodes, and fillers on them if pods go for others."""
        nodes = [self._node(family) for family in manifests.FAMILIES for _ in range(self._nodes)]
        queues = [objects.queue("research"), objects.queue(CAPPED, {"volcano.sh/gpu-memory": "6000"})]
        of_preemption = []
        if self._preempts:
            of_preemption = [objects.priority_class(name, value) for name, value in PRIORITIES.items()]
            of_preemption.append(objects.budget("guarded", 1, GUARDED))
        await self._cluster.load([*self._configuration(nodes), *queues, *of_preemption, *nodes])
        for family in manifests.FAMILIES if self._preempts else ():
            await self._fill(family, FILLERS * self._nodes)

    async def begin(self) -> None:
        """Create the first pods."""
        for _ in range(4 * self._nodes):
            await self._add_pod()
        await self._add_gang()
        await self._add_job()
        await self._add_waiting_pod()

    async def stir(self, over: asyncio.Event) -> None:
        """Do one thing after the other, whether they succeed or not, until the faults are over; ever less often."""
        pause = PAUSE
        weights, choices = zip(*self._actions, strict=True)
        while not over.is_set():
            (action,) = self._chance.choices(choices, weights)
            await self._attempt(action)
            await asyncio.sleep(self._chance.random() * pause)
            pause *= SLOWER

    async def _attempt(self, action: Callable[[], Awaitable[None]]) -> None:
        """Do something that may be in vain: the cluster is away, or another step was faster."""
        name = getattr(action, "__name__", "").strip("_").replace("_", " ")
        try:
            await action()
            self.churn[name] += 1
        except (ClusterError, InputError) as error:
            log.info("in vain: %s: %s", name, error)

    async def restore(self) -> None:
        """Make room for all pods again: nodes are usable, the configuration is valid, and surplus pods go."""
        while True:
            try:
                await self._restore()
                return
            except ClusterError as error:
                log.info("cannot restore the cluster yet: %s", error)
                await asyncio.sleep(0.2)

    async def _restore(self) -> None:
        nodes = await self._cluster.list("Node")
        for node in nodes:
            conditions = node["status"].get("conditions", ())
            if node["spec"].get("unschedulable") or any(each["status"] != "True" for each in conditions):
                await self._set_usable(node, schedulable=True, ready="True")
        await self._configure(nodes)
        await self.collect()
        await self._forget()
        have = Counter(_family_of_node(node["metadata"]["name"]) for node in nodes)
        for family in manifests.FAMILIES:
            for _ in range(self._nodes - have[family]):
                await self._cluster.create(self._node(family))
        await self._configure(await self._cluster.list("Node"))
        for family, room in (await self._rooms()).items():
            excess = -room
            for pod in await self._living():
                if excess > 0 and pod["metadata"]["labels"].get(FAMILY) == family:
                    excess -= await self._delete_whole(pod)

    async def collect(self) -> None:
        """Delete the pods of nodes that do not exist, as the pod garbage collector does, with their whole gang."""
        nodes = {node["metadata"]["name"] for node in await self._cluster.list("Node")}
        for pod in await self._living():
            if pod["spec"].get("nodeName") and pod["spec"]["nodeName"] not in nodes:
                await self._delete_whole(pod)

    async def _forget(self) -> None:
        """Delete the oldest pods that have ended, and pods of others."""
        pods = [pod for pod in await self._cluster.list("Pod") if has_ended(pod) or not _is_ours(pod)]
        for pod in sorted(pods, key=lambda pod: int(pod["metadata"]["resourceVersion"]))[:-ENDED]:
            await self._cluster.delete("Pod", pod["metadata"]["namespace"], pod["metadata"]["name"])

    async def _living(self) -> list[Object]:
        """Return the pods of the workload that have not ended."""
        return [pod for pod in await self._cluster.list("Pod") if _is_ours(pod) and not has_ended(pod)]

    async def _rooms(self) -> Counter[str]:
        """Return for how many more pods of each family there is room."""
        nodes = Counter(_family_of_node(node["metadata"]["name"]) for node in await self._cluster.list("Node"))
        rooms = Counter({family: nodes[family] * count for family, count in PODS_PER_NODE.items()})
        rooms.subtract(
            pod["metadata"]["labels"][FAMILY]
            for pod in await self._living()
            if MAY_WAIT not in pod["metadata"]["labels"]
        )
        return rooms

    def _node(self, family: str) -> Object:
        self._number += 1
        return manifests.node(f"{family}.node-{self._number}", family, self._number)

    def _name(self, what: str) -> str:
        self._number += 1
        return f"{what}-{self._number}"

    async def _family_with_room(self, pods: int) -> str | None:
        families = sorted(family for family, room in (await self._rooms()).items() if room >= pods)
        return self._chance.choice(families) if families else None

    def _pod(self, name: str, family: str, *, group: str = "", queue: str = "", level: str = "usual") -> Object:
        pod = manifests.pod(name, self._chance.choice(manifests.FAMILIES[family]), group=group, queue=queue)
        pod["metadata"]["labels"][FAMILY] = family
        if self._preempts:
            pod["spec"]["priorityClassName"] = level
        return pod

    async def _add_pod(self) -> None:
        if (family := await self._family_with_room(1)) is not None:
            queue = self._chance.choice(self._queues)
            await self._cluster.create(self._pod(self._name("pod"), family, queue=queue))

    async def _add_gang(self) -> None:
        size = self._chance.randint(*GANG)
        if (family := await self._family_with_room(size)) is not None:
            name = self._name("gang")
            level = "usual" if self._preempts else ""
            await self._cluster.create(objects.pod_group(name, size, "default", priority_class=level))
            pods = [self._pod(f"{name}-{member}", family, group=name) for member in range(size)]
            await self._cluster.load(pods)

    async def _add_job(self) -> None:
        size = self._chance.randint(*GANG)
        if (family := await self._family_with_room(size)) is None:
            return
        name = self._name("job")
        pod = self._pod("", family)
        template = {
            "metadata": {key: pod["metadata"][key] for key in ("annotations", "labels")},
            "spec": pod["spec"] | {"restartPolicy": "Never"},
        }
        spec = {
            "schedulerName": manifests.SCHEDULER,
            "minAvailable": size,
            "queue": self._queues[-1],
            **({"priorityClassName": "usual"} if self._preempts else {}),
            "tasks": [{"name": "main", "replicas": size, "template": template}],
        }
        metadata = {"name": name, "namespace": manifests.NAMESPACE}
        await self._cluster.create(
            {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": metadata, "spec": spec}
        )

    async def _add_waiting_pod(self) -> None:
        waiting = [pod for pod in await self._living() if MAY_WAIT in pod["metadata"]["labels"] and not _is_filler(pod)]
        if len(waiting) >= WAITING:
            await self._delete_whole(self._chance.choice(waiting))
            return
        if self._chance.random() < 0.5:
            pod = self._pod(self._name("too-large"), "hami-core")
            pod["spec"]["containers"][0]["resources"]["limits"]["volcano.sh/vgpu-memory"] = "1000000"
        else:
            pod = self._pod(self._name("capped"), "gpu-share", queue=CAPPED)
        pod["metadata"]["labels"][MAY_WAIT] = "true"
        await self._cluster.create(pod)

    async def _add_fillers(self) -> None:
        """Fill the nodes of a family with pods that go for others, and for which there may be no room."""
        family = self._chance.choice(sorted(manifests.FAMILIES))
        fillers = [pod for pod in await self._living() if _is_filler(pod, family)]
        await self._fill(family, FILLERS * self._nodes - len(fillers))

    async def _fill(self, family: str, count: int) -> None:
        pods = [self._pod(self._name("filler"), family, queue="default", level="filler") for _ in range(count)]
        for pod in pods:
            pod["metadata"]["labels"][MAY_WAIT] = "true"
            if ends := self._chance.choice(ENDS):
                pod["metadata"]["annotations"]["pod-delete.stage.kwok.x-k8s.io/delay"] = f"{ends}ms"
        await self._cluster.load(pods)

    async def _add_guarded_pod(self) -> None:
        """Add a pod that fillers go for, and that goes for others as its budget allows."""
        if (family := await self._family_with_room(1)) is not None:
            pod = self._pod(self._name("guarded"), family, queue="default", level="guarded")
            pod["metadata"]["labels"] |= GUARDED
            await self._cluster.create(pod)

    async def _delete_pod(self) -> None:
        if pods := await self._living():
            await self._delete_whole(self._chance.choice(pods))

    async def _delete_whole(self, pod: Object) -> int:
        """Delete a pod, with its whole gang or Job; return the number of pods."""
        namespace = pod["metadata"]["namespace"]
        for owner in pod["metadata"].get("ownerReferences", ()):
            if owner["kind"] == "Job":
                await self._cluster.delete("Job", namespace, owner["name"])
        group = pod["metadata"].get("annotations", {}).get(GROUP)
        members = [pod]
        if group:
            members = [each for each in await self._living() if each["metadata"]["annotations"].get(GROUP) == group]
            await self._cluster.delete("PodGroup", namespace, group)
        for member in members:
            await self._cluster.delete("Pod", namespace, member["metadata"]["name"])
        return len(members)

    async def _finish_pod(self) -> None:
        """Let a bound pod that is in no gang succeed."""
        pods = [
            pod
            for pod in await self._living()
            if pod["spec"].get("nodeName") and GROUP not in pod["metadata"]["annotations"]
        ]
        if pods:
            metadata = self._chance.choice(pods)["metadata"]
            target = "Pod", metadata["namespace"], metadata["name"], metadata["uid"]
            await self._cluster.set_status(*target, {"phase": "Succeeded"}, condition=None, at=time.time())

    async def _recreate_pod(self) -> None:
        """Replace a pod by another one of the same name."""
        pods = [pod for pod in await self._living() if GROUP not in pod["metadata"]["annotations"]]
        if pods:
            replaced = self._chance.choice(pods)
            old, level = replaced["metadata"], replaced["spec"].get("priorityClassName", "")
            new = self._pod(old["name"], old["labels"][FAMILY], level=level)
            new["metadata"]["labels"] = old["labels"]
            await self._cluster.delete("Pod", old["namespace"], old["name"])
            await self._cluster.create(new)

    async def _some_node(self) -> Object | None:
        nodes = await self._cluster.list("Node")
        return self._chance.choice(nodes) if nodes else None

    async def _remove_node(self) -> None:
        if (node := await self._some_node()) is not None:
            await self._cluster.delete("Node", "", node["metadata"]["name"])
            await self.collect()

    async def _add_node(self) -> None:
        """Add a node: a new one, or one whose name was used before."""
        nodes = await self._cluster.list("Node")
        have = Counter(_family_of_node(node["metadata"]["name"]) for node in nodes)
        families = [family for family in manifests.FAMILIES if have[family] <= self._nodes]
        if families:
            made = self._node(self._chance.choice(families))
            if self._chance.random() < 0.5:
                taken = {node["metadata"]["name"] for node in nodes}
                number = self._chance.randint(1, self._number)
                name = f"{_family_of_node(made['metadata']['name'])}.node-{number}"
                made["metadata"]["name"] = made["metadata"]["name"] if name in taken else name
            await self._cluster.create(made)
            await self._configure(await self._cluster.list("Node"))

    async def _cordon(self) -> None:
        if (node := await self._some_node()) is not None:
            await self._set_usable(node, schedulable=False, ready="True")

    async def _lose_node(self) -> None:
        if (node := await self._some_node()) is not None:
            await self._set_usable(node, schedulable=True, ready="Unknown")

    async def _set_usable(self, node: Object, *, schedulable: bool, ready: str) -> None:
        spec = {} if schedulable else {"unschedulable": True}
        status = node["status"] | {"conditions": [{"type": "Ready", "status": ready}]}
        metadata = {key: node["metadata"].get(key, {}) for key in ("labels", "annotations")}
        metadata |= {"name": node["metadata"]["name"]}
        await self._cluster.apply(node | {"metadata": metadata, "spec": spec, "status": status})

    def _configuration(self, nodes: Sequence[Object]) -> list[Object]:
        actions = ("enqueue", "allocate", *(("preempt",) if self._preempts else ()), "backfill")
        return manifests.configuration(nodes, actions=actions)

    async def _configure(self, nodes: Sequence[Object]) -> None:
        await self._cluster.load(self._configuration(nodes))

    async def _change_policy(self) -> None:
        scheduler, *_ = self._configuration(())
        (key,) = scheduler["data"]
        changed = scheduler["data"][key].replace("SchedulePolicy: binpack", "SchedulePolicy: spread")
        await self._cluster.apply(scheduler | {"data": {key: changed}})

    async def _break_configuration(self) -> None:
        await self._cluster.apply(manifests.broken(self._chance.choice(self._configuration(())[:2])))


def _is_ours(pod: Object) -> bool:
    return FAMILY in pod["metadata"].get("labels", {})


def _is_filler(pod: Object, family: str = "") -> bool:
    of_family = family in ("", pod["metadata"]["labels"][FAMILY])
    return of_family and bool(pod["spec"].get("priorityClassName") == "filler")


def _family_of_node(name: str) -> str:
    return name.partition(".")[0]
