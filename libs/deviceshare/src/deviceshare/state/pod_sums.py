"""What a pod takes of a node beside its devices, added up over its containers as Kubernetes does.

It is the larger of its largest init container and the sum of the others. A sidecar counts from its start on: beside the
init containers after it and beside all containers (KEP-753). What the pod requests as a whole stands in place of that
(KEP-2837), and its overhead comes on top (KEP-688). Source: kubernetes/component-helpers, resource/helpers.go.

Where scores compare nodes by what is requested, a container that says nothing of CPU or memory counts as if it had
asked :data:`LEAST` (kubernetes/kubernetes, pkg/scheduler/util/pod_resources.go).
"""

from collections.abc import Mapping

from msgspec.structs import replace

from deviceshare.model import ContainerRequest, PodRequest

ResourceAmounts = tuple[tuple[str, int], ...]

LEAST = {"cpu": 100, "memory": 200 * 2**20}
"""Millicores and bytes."""
SCORED = " (scored)"
"""The end of the names under which nodes count what only scores look at. No resource can be called so."""


def pod_resources(ask: PodRequest, leave_out: frozenset[str]) -> ResourceAmounts:
    """Return what a pod takes of a node, sorted by name.

    ``leave_out`` are the resources that device families account for.
    """
    asked = sums(ask)
    return tuple(sorted((name, amount) for name, amount in asked.items() if amount and name not in leave_out))


def at_least(ask: PodRequest) -> tuple[int, int]:
    """Return the millicores and bytes with which a pod that asks for a node counts in scores.

    What it requests as a whole counts only once it is on a node, as in Kubernetes 1.36 (noderesources/fit.go).
    """
    found = _sum(replace(ask, pod_level=()), LEAST)
    return found.get("cpu", 0), found.get("memory", 0)


def unasked(ask: PodRequest) -> ResourceAmounts:
    """Return by how much more than it takes a pod that is on a node counts there in scores, under such names.

    Of a pod that requests something as a whole only what neither it nor a container requests is filled in
    (kubernetes/kubernetes, pkg/scheduler/framework/types.go: getNonMissingContainerRequests).
    """
    asked = sums(ask)
    least = {name: amount for name, amount in LEAST.items() if not ask.pod_level or name not in asked}
    counted = _sum(ask, least) if least else asked
    more = ((name, counted.get(name, 0) - asked.get(name, 0)) for name in LEAST)
    return tuple((name + SCORED, amount) for name, amount in more if amount)


def sums(ask: PodRequest) -> dict[str, int]:
    """Return what a pod asks of each resource that it names, devices included; a request of 0 is one."""
    return _sum(ask, {})


def _sum(ask: PodRequest, least: Mapping[str, int]) -> dict[str, int]:
    """Return the sums; what a container does not name counts ``least``. A request of 0 is one."""
    running: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in ask.init_containers:
        if container.sidecar:
            _add(running, container, least)
            _raise(peak, running)
        else:
            needs = dict(running)
            _add(needs, container, least)
            _raise(peak, needs)
    for container in ask.containers:
        _add(running, container, least)
    _raise(peak, running)
    peak.update(ask.pod_level)
    for name, amount in ask.overhead:
        peak[name] = peak.get(name, 0) + amount
    return peak


def _add(total: dict[str, int], container: ContainerRequest, least: Mapping[str, int]) -> None:
    asked = {**least, **dict(container.resources)}
    for name, amount in asked.items():
        total[name] = total.get(name, 0) + amount


def _raise(peak: dict[str, int], needs: Mapping[str, int]) -> None:
    for name, amount in needs.items():
        peak[name] = max(peak.get(name, 0), amount)
