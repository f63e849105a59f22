"""Judges a cluster by its objects alone: Nodes, Pods, PodGroups and Events as ``kubectl get -o json`` would show them.

It shares no code and no state with the scheduler, and reads nothing but what device plugins and kubelets read:
annotations, capacities, bindings.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

Object = Mapping[str, Any]

DEVICES = ("volcano.sh/vgpu-number", "volcano.sh/vgpu-memory", "volcano.sh/gpu-memory", "volcano.sh/gpu-number")


def violations(
    nodes: Iterable[Object], pods: Iterable[Object], events: Iterable[Object] = (), groups: Iterable[Object] = ()
) -> list[str]:
    """Return every way in which the cluster is not valid, [] where it is.

    Checked: no card holds more memory, cores or pods than it has, no node more; a pod that asks devices has them, on
    the node where it is bound; no pod was bound more than once; of no gang fewer pods than its minimum are bound.
    """
    by_name = {node["metadata"]["name"]: node for node in nodes}
    found: list[str] = []
    running: dict[str, list[Object]] = defaultdict(list)
    for pod in pods:
        where = pod["spec"].get("nodeName")
        if not where or pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
            continue
        if where in by_name:
            running[where].append(pod)
        else:
            found.append(f"{_name(pod)} is bound to {where}, which does not exist")
    for where, on_node in running.items():
        found += [problem for pod in on_node for problem in _misplaced(pod, where)]
        found += _over_cards(by_name[where], on_node)
        found += _over_node(by_name[where], on_node)
    return found + _bound_twice(events) + _torn_gangs(running, groups)


def _misplaced(pod: Object, where: str) -> list[str]:
    said = pod["metadata"].get("annotations", {}).get("volcano.sh/vgpu-node", where)
    if said != where:
        return [f"{_name(pod)} runs on {where}, its annotation says {said}"]
    if any(_limit(container, name) for container in pod["spec"]["containers"] for name in DEVICES) and not _devices(
        pod
    ):
        return [f"{_name(pod)} is bound without devices"]
    return []


def _over_cards(node: Object, pods: list[Object]) -> list[str]:
    found = []
    cards = _cards(node)
    shares: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for pod in pods:
        for card, memory, cores in _devices(pod):
            shares[card].append((memory, cores))
    for card, given in shares.items():
        if card not in cards:
            found.append(f"{_name(node)} has no card {card}")
            continue
        slots, memory, cores = cards[card]
        sums = (len(given), sum(share for share, _ in given), sum(share for _, share in given))
        if sums[0] > slots or sums[1] > memory or sums[2] > cores:
            found.append(f"{_name(node)} {card}: {sums} shares, MiB, percent given of {cards[card]}")
    return found


def _over_node(node: Object, pods: list[Object]) -> list[str]:
    allocatable = node["status"].get("allocatable", {})
    cpu = sum(
        _milli(container.get("resources", {}).get("requests", {}).get("cpu", "0"))
        for pod in pods
        for container in pod["spec"]["containers"]
    )
    found = []
    if len(pods) > int(allocatable.get("pods", len(pods))):
        found.append(f"{_name(node)} runs {len(pods)} pods of {allocatable['pods']}")
    if cpu > _milli(allocatable.get("cpu", "0")):
        found.append(f"{_name(node)} gave {cpu} millicores of {allocatable.get('cpu')}")
    return found


def _bound_twice(events: Iterable[Object]) -> list[str]:
    bound: Counter[str] = Counter()
    for event in events:
        if event["reason"] == "Scheduled":
            bound[event["involvedObject"]["uid"]] += event.get("count", 1)
    return [f"pod {uid} was bound {times} times" for uid, times in bound.items() if times > 1]


def _torn_gangs(running: Mapping[str, list[Object]], groups: Iterable[Object]) -> list[str]:
    members = Counter(
        f"{pod['metadata']['namespace']}/{pod['metadata'].get('annotations', {}).get('scheduling.k8s.io/group-name')}"
        for pods in running.values()
        for pod in pods
    )
    return [
        f"gang {_name(group)}: {members[_name(group)]} of {group['spec']['minMember']} pods are bound"
        for group in groups
        if 0 < members[_name(group)] < group["spec"]["minMember"]
    ]


def _cards(node: Object) -> dict[str, tuple[int, int, int]]:
    """Return slots, memory and cores of each card."""
    register = node["metadata"].get("annotations", {}).get("volcano.sh/node-vgpu-register", "")
    cards = {}
    for item in filter(None, register.split(":")):
        uuid, slots, memory, *_ = item.split(",")
        cards[uuid] = (int(slots), int(memory), 100)
    capacity = node["status"].get("capacity", {})
    number = int(capacity.get("volcano.sh/gpu-number", 0))
    for index in range(number):
        cards[str(index)] = (10**6, int(capacity["volcano.sh/gpu-memory"]) // number, 10**6)
    return cards


def _devices(pod: Object) -> list[tuple[str, int, int]]:
    """Return card, memory and cores of each device that the pod's annotations give it."""
    annotations = pod["metadata"].get("annotations", {})
    devices = []
    for slot in annotations.get("volcano.sh/vgpu-ids-new", "").split(";"):
        for item in filter(None, slot.split(":")):
            uuid, _, memory, cores = item.split(",")
            devices.append((uuid, int(memory), int(cores)))
    if "volcano.sh/gpu-index" in annotations:
        memory = sum(_limit(container, "volcano.sh/gpu-memory") for container in pod["spec"]["containers"])
        devices += [(index, memory, 0) for index in annotations["volcano.sh/gpu-index"].split(",")]
    return devices


def _name(thing: Object) -> str:
    metadata = thing["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}" if "namespace" in metadata else str(metadata["name"])


def _limit(container: Mapping[str, Any], resource: str) -> int:
    return int(container.get("resources", {}).get("limits", {}).get(resource, 0))


def _milli(text: str | int) -> int:
    value = str(text)
    return int(value[:-1]) if value.endswith("m") else int(float(value) * 1000)
