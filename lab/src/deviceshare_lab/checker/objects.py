"""Checks a cluster by its objects alone: Nodes, Pods, PodGroups and Events as ``kubectl get -o json`` would show them.

It shares no code and no state with the scheduler, and reads nothing but what device plugins and kubelets read:
annotations, capacities, bindings.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import chain

from deviceshare_lab.checker.cards import Parts, devices_of, over_cards
from deviceshare_lab.clusters.fields import Object, annotations_of, group_of, has_ended, name_of

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
        if not where or has_ended(pod):
            continue
        if where in by_name:
            running[where].append(pod)
        else:
            found.append(f"{name_of(pod)} is bound to {where}, which does not exist")
    for where, on_node in running.items():
        found += [problem for pod in on_node for problem in _misplaced(pod, where)]
        found += over_cards(by_name[where], on_node, parts)
        found += _over_node(by_name[where], on_node)
    return found + _bound_twice(events) + torn_gangs(chain.from_iterable(running.values()), groups)


def _misplaced(pod: Object, where: str) -> list[str]:
    said = annotations_of(pod).get("volcano.sh/vgpu-node", where)
    if said != where:
        return [f"{name_of(pod)} runs on {where}, its annotation says {said}"]
    asks = any(
        ASKS.fullmatch(name) for one in pod["spec"]["containers"] for name in one.get("resources", {}).get("limits", {})
    )
    if asks and not devices_of(pod):
        return [f"{name_of(pod)} is bound without devices"]
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
        found.append(f"{name_of(node)} runs {len(pods)} pods of {allocatable['pods']}")
    if cpu > _milli(allocatable.get("cpu", "0")):
        found.append(f"{name_of(node)} gave {cpu} millicores of {allocatable.get('cpu')}")
    return found


def _bound_twice(events: Iterable[Object]) -> list[str]:
    bound: Counter[str] = Counter()
    for event in events:
        if event["reason"] == "Scheduled":
            bound[event["involvedObject"]["uid"]] += event.get("count", 1)
    return [f"pod {uid} was bound {times} times" for uid, times in bound.items() if times > 1]


def torn_gangs(bound: Iterable[Object], groups: Iterable[Object]) -> list[str]:
    """Return the PodGroups of which some pods are bound, and fewer than their minimum."""
    members = Counter(map(group_of, bound))
    return [
        f"gang {name_of(group)}: {members[name_of(group)]} of {group['spec']['minMember']} pods are bound"
        for group in groups
        if 0 < members[name_of(group)] < group["spec"]["minMember"]
    ]


def _milli(text: str | int) -> int:
    value = str(text)
    return int(value[:-1]) if value.endswith("m") else int(float(value) * 1000)
