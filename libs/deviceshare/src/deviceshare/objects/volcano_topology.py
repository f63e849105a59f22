"""Volcano's constraints about the topology of networks and NUMA nodes, which are not evaluated.

A constraint that nodes must meet is a problem, so that no pod is placed as if nothing had been asked. What only orders
nodes is a caveat.

Source: Volcano pkg/scheduler/plugins/numaaware (filterNodeByPolicy: each policy but ``none`` excludes nodes),
pkg/controllers/podgroup (parseNetworkTopologyFromPod), and the schema of its PodGroup, whose default is ``hard``.
"""

from collections.abc import Iterator, Mapping

from deviceshare.objects.bounds import MAX_TASKS, cut
from deviceshare.objects.problems import Problems
from deviceshare.objects.views import NetworkTopology, PodGroupSpec

NUMA_POLICY = "volcano.sh/numa-topology-policy"
"""Annotation of pods; Volcano's job controller writes it for the ``topologyPolicy`` of a task."""
NETWORK_MODE, NETWORK_TIER = "volcano.sh/network-topology-mode", "volcano.sh/network-topology-highest-tier"
"""Annotations of pods, from which Volcano's podgroup controller makes the ``networkTopology`` of their PodGroup."""
_ANNOTATIONS = frozenset({NUMA_POLICY, NETWORK_MODE, NETWORK_TIER})
_HARD, _SOFT, _NO_POLICY = "hard", "soft", "none"
_EXPECTED_NUMA = f"{_NO_POLICY}: NUMA nodes, and the topologyPolicy of a task, are not evaluated"
_EXPECTED_MODE = f"{_SOFT}, or no network topology: it is not evaluated"


def check_pod(annotations: Mapping[str, str], problems: Problems) -> None:
    """Add the constraints in the annotations of a pod to its problems."""
    if _ANNOTATIONS.isdisjoint(annotations):
        return
    policy = annotations.get(NUMA_POLICY, "")
    if policy not in ("", _NO_POLICY):
        problems.add(f"metadata.annotations[{NUMA_POLICY}]", policy, _EXPECTED_NUMA)
    if NETWORK_MODE in annotations or NETWORK_TIER in annotations:
        mode = annotations.get(NETWORK_MODE, _HARD)
        if mode.lower() != _SOFT:
            problems.add(f"metadata.annotations[{NETWORK_MODE}]", mode, _EXPECTED_MODE)


def check_group(spec: PodGroupSpec, problems: Problems) -> tuple[str, ...]:
    """Add the constraints of a PodGroup to its problems. Returns what has no effect, a sentence if there is any."""
    soft = []
    for field, topology in _topologies(spec, problems):
        mode = topology.mode or _HARD
        if mode == _SOFT:
            soft.append(field)
        else:
            problems.add(f"{field}.mode", mode, _EXPECTED_MODE)
    if not soft:
        return ()
    fields = soft[0] if len(soft) == 1 else f"{soft[0]} and {len(soft) - 1} more"
    return (f"{problems.subject}: {fields}: {_SOFT!r} has no effect: network topology is not evaluated",)


def _topologies(spec: PodGroupSpec, problems: Problems) -> Iterator[tuple[str, NetworkTopology]]:
    if spec.network_topology is not None:
        yield "spec.networkTopology", spec.network_topology
    policies = cut(spec.sub_group_policy or [], MAX_TASKS, "spec.subGroupPolicy", problems)
    for index, policy in enumerate(policies):
        if policy.network_topology is not None:
            yield f"spec.subGroupPolicy[{index}].networkTopology", policy.network_topology
