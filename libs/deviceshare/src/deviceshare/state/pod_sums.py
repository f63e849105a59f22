"""The effective request of a pod, devices aside, computed from its containers as in Kubernetes.

The effective request is the largest init container or the sum of the other containers, whichever is larger. A sidecar
counts from its start: in addition to the init containers after it and to all containers (KEP-753). A request of the pod
as a whole (``spec.resources``) replaces this sum (KEP-2837), and the overhead of the pod is added (KEP-688). Source:
kubernetes/component-helpers, resource/helpers.go.

Where scores compare nodes by requests, a container that requests no CPU or memory counts as if it requested
:data:`LEAST` (kubernetes/kubernetes, pkg/scheduler/util/pod_resources.go).
"""

from collections.abc import Mapping
from functools import lru_cache

from msgspec.structs import replace

from deviceshare.model import ContainerRequest, PodRequest, ResourceAmounts

LEAST = {"cpu": 100, "memory": 200 * 2**20}
"""Millicores and bytes."""
SCORED = " (scored)"
"""The suffix of the names of amounts that only scores count. No resource name can end in it.

It is part of the wire format: claims on the bus have these names (``Claim.counted``).
"""


def pod_resources(ask: PodRequest, leave_out: frozenset[str]) -> ResourceAmounts:
    """Return what a pod takes of the node's own resources, sorted by name.

    ``leave_out`` are the resources that device families account for.
    """
    asked = sums(ask)
    return tuple(sorted((name, amount) for name, amount in asked.items() if amount and name not in leave_out))


def at_least(ask: PodRequest) -> tuple[int, int]:
    """Return the millicores and bytes that scores count for a pod that waits for a node.

    Pod-level requests count only once the pod is on a node, as in Kubernetes 1.36 (noderesources/fit.go).
    """
    found = _sum(replace(ask, pod_level=()), LEAST)
    return found.get("cpu", 0), found.get("memory", 0)


def unasked(ask: PodRequest) -> ResourceAmounts:
    """Return what scores count for a pod on a node beyond its requests, under names with :data:`SCORED`.

    For a pod with pod-level requests only resources are filled in that neither the pod nor a container requests
    (kubernetes/kubernetes, pkg/scheduler/framework/types.go: getNonMissingContainerRequests).
    """
    asked = sums(ask)
    least = {name: amount for name, amount in LEAST.items() if not ask.pod_level or name not in asked}
    counted = _sum(ask, least) if least else asked
    more = ((name, counted.get(name, 0) - asked.get(name, 0)) for name in LEAST)
    return tuple((name + SCORED, amount) for name, amount in more if amount)


@lru_cache(maxsize=4096)
def with_resized(claimed: ResourceAmounts, current: ResourceAmounts) -> ResourceAmounts:
    """Return the amounts of a claim with the CPU and memory that its pod takes now: a resize may have changed them.

    Amounts that the claim does not name count as well: claims of earlier versions name no resources of devices. Equal
    arguments give one object: many pods have the same amounts.
    """
    if current == claimed:
        return current
    resized = [name + suffix for name in LEAST for suffix in ("", SCORED)]
    kept = {name: amount for name, amount in claimed if name not in resized}
    return tuple((dict(current) | kept).items())


def sums(ask: PodRequest) -> dict[str, int]:
    """Return what a pod requests of each resource that it names, devices included; a request of 0 is a request."""
    return _sum(ask, {})


def _sum(ask: PodRequest, least: Mapping[str, int]) -> dict[str, int]:
    """Return the sums; a resource that a container does not name counts ``least``."""
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
