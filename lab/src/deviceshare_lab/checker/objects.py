"""Checks a cluster by its objects alone: Nodes, Pods, PodGroups and Events as ``kubectl get -o json`` would show them.

It shares no code and no state with the scheduler, and reads nothing but what device plugins and kubelets read:
annotations, capacities, bindings.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from deviceshare_lab.checker.cards import Object, Parts, devices_of, over_cards

ASKS = re.compile(r"volcano\.sh/v?gpu-(number|memory)|huawei\.com/(npu-core|Ascend[^-]*)")


def violations(
    nodes: Iterable[Object],
    pods: Iterable[Object],
    events: Iterable[Object] = (),
    groups: Iterable[Object] = (),
    device_config: str = "",
) -> list[str]:
    """Return every way in which the cluster is not valid, [] where it is; ``device_config`` says how chips are cut.

    Checked: no card holds more memory, cores or pods than it has, no node more; a pod that asks devices has them, on
    the node where it is bound; no pod was bound more than once; of no gang fewer pods than its minimum are bound.
    """
    by_name = {node["metadata"]["name"]: node for node in nodes}
    parts = Parts(device_config)
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
        found += over_cards(by_name[where], on_node, parts)
        found += _over_node(by_name[where], on_node)
    return found + _bound_twice(events) + _torn_gangs(running, groups)


def _misplaced(pod: Object, where: str) -> list[str]:
    said = pod["metadata"].get("annotations", {}).get("volcano.sh/vgpu-node", where)
    if said != where:
        return [f"{_name(pod)} runs on {where}, its annotation says {said}"]
    asks = any(
        ASKS.fullmatch(name) for one in pod["spec"]["containers"] for name in one.get("resources", {}).get("limits", {})
    )
    if asks and not devices_of(pod):
        return [f"{_name(pod)} is bound without devices"]
    return []


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


def _name(thing: Object) -> str:
    metadata = thing["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}" if "namespace" in metadata else str(metadata["name"])


def _milli(text: str | int) -> int:
    value = str(text)
    return int(value[:-1]) if value.endswith("m") else int(float(value) * 1000)
