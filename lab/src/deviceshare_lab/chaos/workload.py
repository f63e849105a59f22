"""What users and operators do to a simulated cluster: pods, gangs, deletions, nodes that come and go."""

import random
from collections.abc import Mapping, Sequence

from deviceshare_cluster.interface import Object

from deviceshare_lab.chaos.scenario import Step, Value
from deviceshare_lab.chaos.sizes import Size
from deviceshare_lab.chaos.system import System
from deviceshare_lab.clusters import manifests, objects
from deviceshare_lab.clusters.fields import annotations_of
from deviceshare_lab.world.apiserver import Key, key_of

QUEUES = ("default", "research")
GANG = (2, 4)
PRIORITIES = {"": 0, "low": 10, "high": 1000}
"""The PriorityClasses of a history in which pods go for others; "" is none."""
GUARDED = {"simulation/budget": "guarded"}
"""The labels of the pods that a PodDisruptionBudget counts."""
ENDS = 5.0, 25.0
"""Seconds that some of these pods take to end: pods of higher priority come while others wait for their room."""
COPIES, SPREAD = (1, 8), 30.0
"""How many pods or gangs there are of each, and the seconds after the first one in which the others come."""
BROKEN = (1, 3)
"""How often a configuration is broken in a history where it is."""
BURST = 3.0
"""Seconds from the beginning of an episode in which most of its requests are under way."""


class Episodes:
    """The episodes of a history, the first of which begins with it: the workload and the faults begin in them."""

    def __init__(self, chance: random.Random, size: Size) -> None:
        """Draw when they begin."""
        self._chance, self._seconds = chance, size.episode
        more = range(chance.randint(*size.episodes) - 1)
        self._begin = [0.0, *(round(chance.uniform(size.episode, size.span), 1) for _ in more)]

    def beginning(self) -> float:
        """Draw the beginning of an episode."""
        return self._chance.choice(self._begin)

    def moment(self) -> float:
        """Draw a moment in an episode, or shortly after it."""
        return round(self.beginning() + self._chance.uniform(0.0, 1.5 * self._seconds), 3)

    def burst(self) -> float:
        """Draw a moment while the pods that come with an episode are decided and bound."""
        return round(self.beginning() + self._chance.uniform(0.0, BURST), 3)


def draw(chance: random.Random, nodes: Mapping[str, str], size: Size, episodes: Episodes) -> list[Step]:
    """Draw the workload of a cluster with these nodes, by family, in these episodes."""
    families = sorted(set(nodes.values()))
    steps = [Step(0.0, "queue", ("research",))]
    for number in range(1, chance.randint(*size.pods) + 1):
        family = chance.choice(families)
        kind = chance.randrange(len(manifests.FAMILIES[family]))
        seconds = round(chance.uniform(5.0, 60.0), 1) if chance.random() < 0.4 else 0.0
        # Half of the pods come in bursts.
        at = episodes.moment() if chance.random() < 0.5 else episodes.beginning()
        queue = chance.choice(QUEUES)
        if chance.random() < 0.15:
            members = chance.randint(*GANG)
            steps.append(Step(at, "gang", (f"gang-{number}", family, kind, members, queue, seconds)))
        else:
            steps.append(Step(at, "pod", (f"pod-{number}", family, kind, queue, seconds)))
        if chance.random() < 0.25:
            again = "recreate" if chance.random() < 0.3 else "delete"
            name = f"pod-{number}" if steps[-1].action == "pod" else f"gang-{number}-0"
            steps.append(Step(round(at + chance.uniform(0.0, 40.0), 3), again, (name,)))
    for name in sorted(nodes):
        if chance.random() < 0.15:
            at = episodes.moment()
            steps.append(Step(at, "remove-node", (name,)))
            steps.append(Step(round(at + chance.uniform(1.0, 60.0), 3), "add-node", (name, nodes[name])))
        elif chance.random() < 0.15:
            at = episodes.moment()
            steps.append(Step(at, "unready-node", (name,)))
            steps.append(Step(round(at + chance.uniform(1.0, 60.0), 3), "ready-node", (name,)))
    return steps


def with_priorities(chance: random.Random, steps: Sequence[Step]) -> list[Step]:
    """Give the pods and gangs of a workload priorities, and some pods a budget; add more, so that many have to wait."""
    prepared = [Step(0.0, "priority", (name, value)) for name, value in PRIORITIES.items() if name]
    prepared.append(Step(0.0, "budget", (chance.randint(0, 2),)))
    drawn = []
    for step in steps:
        if step.action in ("pod", "gang"):
            for copy in range(chance.randint(*COPIES)):
                name, *others = step.arguments
                at = round(step.at + (chance.uniform(0.0, SPREAD) if copy else 0.0), 3)
                ends = round(chance.uniform(*ENDS), 1) if chance.random() < 0.4 else 0.0
                of_preemption = (chance.choice(list(PRIORITIES)), int(chance.random() < 0.2), ends)
                drawn.append(
                    Step(at, step.action, (f"{name}{f'-copy-{copy}' if copy else ''}", *others, *of_preemption))
                )
        else:
            drawn.append(step)
    return prepared + drawn


def broken_configurations(chance: random.Random, size: Size) -> list[Step]:
    """Draw when the configuration of the scheduler or of the devices cannot be used, and when both can again."""
    steps = []
    for _ in range(chance.randint(*BROKEN)):
        at = round(chance.uniform(0.0, size.span), 1)
        steps.append(Step(at, "break-configuration", (chance.randrange(2),)))
        steps.append(Step(round(at + chance.uniform(1.0, 60.0), 1), "repair-configurations"))
    return steps


def play(system: System, step: Step) -> bool:
    """Execute a step of the workload; return whether it is one. What does not apply any more does nothing."""
    arguments = step.arguments
    match step.action:
        case "queue":
            system.api.create(objects.queue(str(arguments[0])))
        case "priority":
            system.api.create(objects.priority_class(str(arguments[0]), int(arguments[1])))
        case "budget":
            system.api.create(objects.budget("guarded", int(arguments[0]), GUARDED))
        case "pod":
            name, family, kind, queue, seconds, *of_preemption = arguments
            made = manifests.FAMILIES[str(family)][int(kind)]
            pod = manifests.pod(str(name), made, queue=str(queue), seconds=float(seconds))
            system.api.create(_with_priority(pod, *of_preemption))
        case "gang":
            _gang(system, arguments)
        case "delete":
            delete(system, ("Pod", manifests.NAMESPACE, str(arguments[0])))
        case "recreate":
            _recreate(system, str(arguments[0]))
        case "remove-node":
            _remove_node(system, str(arguments[0]))
        case "add-node":
            _collect_pods(system, str(arguments[0]))
            system.add_node(str(arguments[0]), str(arguments[1]))
        case "break-configuration":
            system.configure(broken=int(arguments[0]))
        case "repair-configurations":
            system.configure()
        case "unready-node" | "ready-node":
            _set_ready(system, str(arguments[0]), "True" if step.action == "ready-node" else "Unknown")
        case _:
            return False
    return True


def _gang(system: System, arguments: Sequence[str | float | int]) -> None:
    name, family, kind, size, queue, seconds, *of_preemption = arguments
    made = manifests.FAMILIES[str(family)][int(kind)]
    priority_class = str(of_preemption[0]) if of_preemption else ""
    system.api.create(objects.pod_group(str(name), int(size), str(queue), priority_class=priority_class))
    for member in range(int(size)):
        pod = manifests.pod(f"{name}-{member}", made, group=str(name), queue=str(queue), seconds=float(seconds))
        system.api.create(_with_priority(pod, *of_preemption))


def _with_priority(pod: Object, priority_class: Value = "", guarded: Value = 0, ends: Value = 0.0) -> Object:
    """Return a pod with a priority, as admission sets it, and with the labels of the budget if it is ``guarded``.

    ``ends``: the seconds that it takes to end when it is deleted, besides those that every pod takes.
    """
    name = str(priority_class)
    if name:
        pod["spec"] |= {"priorityClassName": name, "priority": PRIORITIES[name]}
    if guarded:
        pod["metadata"]["labels"] |= GUARDED
    if ends:
        pod["metadata"]["annotations"] |= {"simulation/ends": f"{float(ends):g}"}
    return pod


def delete(system: System, key: Key) -> Object | None:
    """Delete a pod as the API server does: at once if it is not bound, else when its kubelet has ended it."""
    pod = system.api.peek(*key)
    if pod is None:
        return None
    if not pod["spec"].get("nodeName"):
        system.api.delete(key)
        return pod

    def terminate(found: Object) -> bool:
        if "deletionTimestamp" in found["metadata"]:
            return False
        found["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        return True

    system.api.update(key, terminate, "user")
    return pod


def _recreate(system: System, name: str) -> None:
    """Replace a pod by one of its name and another uid, at once."""
    key = "Pod", manifests.NAMESPACE, name
    pod = system.api.peek(*key)
    if pod is None:
        return
    system.api.delete(key)
    kept = {
        name: value
        for name, value in annotations_of(pod).items()
        if name.startswith(("scheduling.", "simulation/")) or name == "volcano.sh/vgpu-mode"
    }
    metadata = {key: value for key, value in pod["metadata"].items() if key in ("name", "namespace", "labels")}
    spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
    system.api.create({**pod, "metadata": {**metadata, "annotations": kept}, "spec": spec, "status": {}})


def _remove_node(system: System, name: str) -> None:
    """Remove a node, with its pods."""
    system.api.delete(("Node", "", name))
    _collect_pods(system, name)


def _collect_pods(system: System, name: str) -> None:
    """Delete the pods of a node that does not exist, as the garbage collector of pods does."""
    if system.api.peek("Node", "", name) is not None:
        return
    for pod in [pod for pod in system.api.objects("Pod") if pod["spec"].get("nodeName") == name]:
        system.api.delete(key_of(pod), "pod-garbage-collector")


def _set_ready(system: System, name: str, status: str) -> None:
    def change(found: Object) -> bool:
        found["status"]["conditions"] = [{"type": "Ready", "status": status}]
        return True

    system.api.update(("Node", "", name), change, "node-controller")
