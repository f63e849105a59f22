"""Decoding of a pod's request: resource amounts, node constraints, and unsupported constraints.

Amounts follow Kubernetes: requests of native resources (limits if a request is missing), limits of extended resources,
which the API server keeps equal to the requests.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from deviceshare.conf import default_conf
from deviceshare.families import FAMILIES, pod_keys
from deviceshare.model import (
    DEVICE_CLAIMS,
    VOLUMES,
    ContainerRequest,
    PodRequest,
    ResourceAmounts,
    Toleration,
    is_native,
)
from deviceshare.objects.affinity import preferences, required_terms
from deviceshare.objects.bounds import MAX_CONTAINERS, MAX_RESOURCES, bound_spec
from deviceshare.objects.pod_topology import constrains, pod_topology
from deviceshare.objects.pod_views import Container, PodSpec, ResourceRequirements, TolerationView
from deviceshare.objects.pod_volumes import disks, pod_volumes
from deviceshare.objects.policies import read_policies
from deviceshare.objects.ports import host_ports
from deviceshare.objects.problems import Problems
from deviceshare.objects.views import Quantities

_SIDECAR = "Always"
_POD_LEVEL = ("cpu", "memory")
_SPREAD = "spread"
"""The only value of annotations by which a pod shares no card (``pod_keys().spreading``)."""


def pod_request(
    spec: PodSpec,
    annotations: Mapping[str, str],
    labels: Mapping[str, str],
    place: tuple[str, str],
    problems: Problems,
) -> PodRequest:
    """Return the request of a pod. Omits invalid parts and adds them to ``problems``.

    Args:
        spec: the pod's spec.
        annotations: the annotations of the pod; those that a device family reads become part of the request.
        labels: all labels of the pod, likewise.
        place: its namespace, and the key of its PodGroup, or ''.
        problems: the problems of the pod.
    """
    namespace, podgroup = place
    bound_spec(spec, problems)
    containers = _containers(spec.containers, "containers", problems)
    init_containers = _containers(spec.init_containers, "initContainers", problems)
    containers, init_containers = _with_few_resources((containers, init_containers), problems)
    return PodRequest(
        containers=containers,
        init_containers=init_containers,
        overhead=_amounts(spec.overhead, "spec.overhead", problems) if spec.overhead else (),
        pod_level=_pod_level(spec, spec.resources, problems) if spec.resources else (),
        host_ports=host_ports(spec, problems),
        node_selector=tuple(sorted(spec.node_selector.items())) if spec.node_selector else (),
        node_terms=required_terms(spec.affinity, problems),
        preferences=preferences(spec.affinity, problems),
        tolerations=_tolerations(spec.tolerations, problems) if spec.tolerations else (),
        annotations=annotations_read(annotations),
        labels=labels_read(labels),
        topology=pod_topology(spec, namespace, labels, problems) if constrains(spec) else None,
        apart_group=podgroup if _spreads(annotations, problems) else "",
        volumes=pod_volumes(spec.volumes) if spec.volumes else (),
        disks=disks(spec.volumes) if spec.volumes else (),
        policies=read_policies(annotations, problems),
        unsupported=_unsupported(spec),
    )


def annotations_read(annotations: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the annotations that device families read."""
    if not annotations:
        return ()
    keys = pod_keys()
    return _chosen(annotations, keys.annotations | _matching(annotations, keys.patterns))


def annotations_needed(annotations: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the annotations on which a request depends, the pod's PodGroup aside."""
    read = annotations_read(annotations)
    policies = _chosen(annotations, pod_keys().policies)
    return tuple(sorted({*read, *policies})) if policies else read


def labels_read(labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the labels that device families read."""
    return _chosen(labels, pod_keys().labels) if labels else ()


def requests_devices(request: PodRequest) -> bool:
    """Return whether a pod requests an extended resource, such as devices."""
    return any(
        not is_native(name) for each in (*request.containers, *request.init_containers) for name, _ in each.resources
    )


def _containers(views: list[Container] | None, field: str, problems: Problems) -> tuple[ContainerRequest, ...]:
    found = tuple(
        ContainerRequest(
            view.name or "",
            _effective(view.resources, f"spec.{field}[{view.name or ''}].resources", problems),
            view.restart_policy == _SIDECAR and field == "initContainers",
        )
        for view in views or ()
    )
    if len(found) <= MAX_CONTAINERS:
        return found
    problems.add(f"spec.{field}", f"{len(found)} entries", f"at most {MAX_CONTAINERS} entries")
    # On a node, where another scheduler bound it, the pod uses all of these amounts.
    rest = Counter[str]()
    for container in found[MAX_CONTAINERS - 1 :]:
        rest.update(dict(container.resources))
    return (*found[: MAX_CONTAINERS - 1], ContainerRequest("…", tuple(sorted(rest.items())), field != "containers"))


def _with_few_resources(
    parts: tuple[tuple[ContainerRequest, ...], ...], problems: Problems
) -> tuple[tuple[ContainerRequest, ...], ...]:
    """Return containers, and init containers, that name at most :data:`MAX_RESOURCES` resources.

    Of too many, which are a problem, those stay that Kubernetes and device families define.
    """
    names = {name for containers in parts for container in containers for name, _ in container.resources}
    if len(names) <= MAX_RESOURCES:
        return parts
    problems.add("spec.containers[].resources", f"{len(names)} resources", f"at most {MAX_RESOURCES} resources")
    conf = default_conf()
    known = frozenset[str]().union(*(family.resources(conf) for family in FAMILIES))
    kept = set(sorted(names, key=lambda name: (not is_native(name), name not in known, name))[:MAX_RESOURCES])
    return tuple(
        tuple(
            replace(container, resources=tuple(pair for pair in container.resources if pair[0] in kept))
            for container in containers
        )
        for containers in parts
    )


def _effective(resources: ResourceRequirements | None, field: str, problems: Problems) -> ResourceAmounts:
    if resources is None:
        return ()
    requests, limits = resources.requests or {}, resources.limits or {}
    asked: Quantities = {}
    fields: dict[str, str] = {}
    for resource in requests.keys() | limits.keys():
        from_limits = resource not in requests or (resource in limits and not is_native(resource))
        asked[resource] = (limits if from_limits else requests)[resource]
        fields[resource] = "limits" if from_limits else "requests"
    return _amounts(asked, field, problems, fields)


def _pod_level(spec: PodSpec, resources: ResourceRequirements, problems: Problems) -> ResourceAmounts:
    """Return the pod-level requests.

    Like the API server, uses a limit as the request if neither the pod nor a container has a request.
    """
    requests, limits = resources.requests or {}, resources.limits or {}
    of_containers = {
        name
        for container in (*(spec.containers or ()), *(spec.init_containers or ()))
        if container.resources is not None
        for name in (*(container.resources.requests or ()), *(container.resources.limits or ()))
    }
    asked: Quantities = {**{name: limits[name] for name in limits.keys() - of_containers}, **requests}
    fields = {name: "requests" if name in requests else "limits" for name in asked}
    field = "spec.resources"
    for name in [name for name in asked if name not in _POD_LEVEL and not name.startswith("hugepages-")]:
        expected = "cpu, memory or hugepages: other resources cannot be requested at pod level"
        problems.add(f"{field}.{fields[name]}[{name}]", str(asked.pop(name)), expected)
    return _amounts(asked, field, problems, fields)


def _amounts(
    quantities: Quantities, field: str, problems: Problems, subfields: Mapping[str, str] | None = None
) -> ResourceAmounts:
    return tuple(problems.valid_amounts(quantities, field, subfields).items())


def _tolerations(views: list[TolerationView], problems: Problems) -> tuple[Toleration, ...]:
    tolerations = set()
    for index, view in enumerate(views):
        operator = view.operator or "Equal"
        if operator not in ("Equal", "Exists"):
            problems.add(f"spec.tolerations[{index}].operator", operator, "one of Equal, Exists")
        else:
            tolerations.add((view.key or "", operator, view.value or "", view.effect or ""))
    return tuple(Toleration(*toleration) for toleration in sorted(tolerations))


def _matching(keys: Iterable[str], patterns: tuple[tuple[str, str], ...]) -> set[str]:
    return {key for key in keys for start, end in patterns if key.startswith(start) and key.endswith(end)}


def _chosen(values: Mapping[str, str], keys: frozenset[str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((key, values[key]) for key in keys & values.keys())) if values else ()


def _spreads(annotations: Mapping[str, str], problems: Problems) -> bool:
    """Return whether the pod must not share a card with other pods of its PodGroup."""
    policies = {key: annotations[key].strip() for key in sorted(pod_keys().spreading & annotations.keys())}
    for key, policy in policies.items():
        if policy not in ("", _SPREAD):
            problems.add(f"metadata.annotations[{key}]", policy, f"{_SPREAD}, or nothing")
    return _SPREAD in policies.values()


def _unsupported(spec: PodSpec) -> tuple[str, ...]:
    """Return the fields with required constraints that are not evaluated.

    Readers of earlier versions do not evaluate ``volumes`` either: they refuse the pod by these fields.
    """
    fields = [
        f"{VOLUMES}[{volume.name or ''}]"
        for volume in spec.volumes or ()
        if volume.persistent_volume_claim or volume.ephemeral
    ]
    if spec.resource_claims:
        fields.append(DEVICE_CLAIMS)
    return tuple(fields)
