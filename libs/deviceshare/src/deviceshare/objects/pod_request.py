"""The request of a pod: amounts, constraints on nodes, and the fields that are not evaluated.

Amounts follow Kubernetes: requests of native resources, or limits if a request is missing; limits of extended
resources, which the API server keeps equal to the requests.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import NamedTuple

from deviceshare.families import FAMILIES, WISHES, Family
from deviceshare.formats.vgpu import PODGROUP_POLICY, SPREAD
from deviceshare.model import ContainerRequest, PodRequest, Problem, RequestError, Toleration, is_native, to_amount
from deviceshare.objects.affinity import preferences, required_terms
from deviceshare.objects.ports import host_ports
from deviceshare.objects.views import Container, PodSpec, Quantities, ResourceRequirements, TolerationView

Amounts = tuple[tuple[str, int], ...]

_SIDECAR = "Always"
_OF_PODS = ("cpu", "memory")


class _Wishes(NamedTuple):
    """Names of annotations and labels that families read; ``starred`` are pairs of prefix and suffix."""

    annotations: frozenset[str]
    starred: tuple[tuple[str, str], ...]
    labels: frozenset[str]


def pod_request(
    spec: PodSpec,
    annotations: Mapping[str, str],
    labels: Mapping[str, str],
    podgroup: str,
    subject: str,
    problems: list[Problem],
) -> PodRequest:
    """Return the request of a pod, without invalid values, which are appended to ``problems``.

    Args:
        spec: the pod's spec.
        annotations: the pod's annotations; the request keeps those that device families read.
        labels: the pod's labels; the request keeps those that device families read.
        podgroup: the key of its PodGroup, '' if it has none.
        subject: the pod, for messages.
        problems: problems are appended.
    """
    wishes = _wishes_to(tuple(FAMILIES))
    return PodRequest(
        containers=_containers(spec.containers, "containers", subject, problems),
        init_containers=_containers(spec.init_containers, "initContainers", subject, problems),
        overhead=_amounts(spec.overhead or {}, subject, "spec.overhead", problems) if spec.overhead else (),
        pod_level=_pod_level(spec, subject, problems) if spec.resources else (),
        host_ports=host_ports(spec, subject, problems),
        node_selector=tuple(sorted(spec.node_selector.items())) if spec.node_selector else (),
        node_terms=required_terms(spec.affinity, subject, problems),
        preferences=preferences(spec.affinity, subject, problems),
        tolerations=_tolerations(spec.tolerations, subject, problems) if spec.tolerations else (),
        annotations=_chosen(annotations, wishes.annotations | _starred(annotations, wishes)),
        labels=_chosen(labels, wishes.labels),
        apart_group=podgroup if _is_apart(annotations, subject, problems) else "",
        unsupported=_unsupported(spec),
    )


def _containers(
    views: list[Container] | None, field: str, subject: str, problems: list[Problem]
) -> tuple[ContainerRequest, ...]:
    if not views:
        return ()
    return tuple(
        ContainerRequest(
            view.name or "",
            _effective(view.resources, subject, f"spec.{field}[{view.name or ''}].resources", problems),
            view.restart_policy == _SIDECAR and field == "initContainers",
        )
        for view in views
    )


def _effective(resources: ResourceRequirements | None, subject: str, field: str, problems: list[Problem]) -> Amounts:
    if resources is None:
        return ()
    requests, limits = resources.requests or {}, resources.limits or {}
    asked: Quantities = {}
    fields: dict[str, str] = {}
    for resource in requests.keys() | limits.keys():
        from_limits = resource not in requests or (resource in limits and not is_native(resource))
        asked[resource] = (limits if from_limits else requests)[resource]
        fields[resource] = "limits" if from_limits else "requests"
    return _amounts(asked, subject, field, problems, fields)


def _pod_level(spec: PodSpec, subject: str, problems: list[Problem]) -> Amounts:
    """Return the pod-level requests.

    A limit counts as the request if neither the pod nor a container has one, as the API server defaults it.
    """
    if spec.resources is None:
        return ()
    requests, limits = spec.resources.requests or {}, spec.resources.limits or {}
    of_containers = {
        name
        for container in (*(spec.containers or ()), *(spec.init_containers or ()))
        if container.resources is not None
        for name in (*(container.resources.requests or ()), *(container.resources.limits or ()))
    }
    asked: Quantities = {**{name: limits[name] for name in limits.keys() - of_containers}, **requests}
    fields = {name: "requests" if name in requests else "limits" for name in asked}
    field = "spec.resources"
    for name in [name for name in asked if name not in _OF_PODS and not name.startswith("hugepages-")]:
        expected = "cpu, memory or hugepages: no other resources at pod level"
        problems.append(Problem(subject, f"{field}.{fields[name]}[{name}]", str(asked.pop(name)), expected))
    return _amounts(asked, subject, field, problems, fields)


def _amounts(
    quantities: Quantities, subject: str, field: str, problems: list[Problem], fields: Mapping[str, str] | None = None
) -> Amounts:
    """Return the amounts sorted by name; ``fields`` is, by resource, the part of ``field`` that contains it."""
    amounts = []
    for resource in sorted(quantities):
        try:
            amounts.append((resource, to_amount(resource, quantities[resource], subject, field, RequestError)))
        except RequestError as error:
            path = f"{field}.{fields[resource]}[{resource}]" if fields else f"{field}[{resource}]"
            problems.append(Problem(subject, path, error.problem.value, error.problem.expected))
    return tuple(amounts)


def _tolerations(views: list[TolerationView], subject: str, problems: list[Problem]) -> tuple[Toleration, ...]:
    tolerations = set()
    for index, view in enumerate(views):
        operator = view.operator or "Equal"
        if operator not in ("Equal", "Exists"):
            field = f"spec.tolerations[{index}].operator"
            problems.append(Problem(subject, field, operator, "one of Equal, Exists"))
        else:
            tolerations.add((view.key or "", operator, view.value or "", view.effect or ""))
    return tuple(Toleration(*toleration) for toleration in sorted(tolerations))


@cache
def _wishes_to(families: tuple[Family, ...]) -> _Wishes:
    annotations = WISHES.union(*(family.pod_annotations for family in families))
    starred = [key.partition("*") for key in sorted(annotations) if "*" in key]
    labels = frozenset[str]().union(*(family.pod_labels for family in families))
    return _Wishes(annotations, tuple((start, end) for start, _, end in starred), labels)


def _starred(keys: Iterable[str], wishes: _Wishes) -> set[str]:
    """Return the keys that families recognize by prefix and suffix."""
    return {key for key in keys for start, end in wishes.starred if key.startswith(start) and key.endswith(end)}


def _chosen(values: Mapping[str, str], keys: frozenset[str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((key, values[key]) for key in keys & values.keys())) if values else ()


def _is_apart(annotations: Mapping[str, str], subject: str, problems: list[Problem]) -> bool:
    """Return whether the pod must not share cards with other pods of its PodGroup."""
    policy = annotations.get(PODGROUP_POLICY, "").strip()
    if policy not in ("", SPREAD):
        problems.append(Problem(subject, f"metadata.annotations[{PODGROUP_POLICY}]", policy, f"{SPREAD}, or nothing"))
    return policy == SPREAD


def _unsupported(spec: PodSpec) -> tuple[str, ...]:
    """Return the fields that rule out nodes and are not evaluated; preferences are ignored."""
    fields = []
    if affinity := spec.affinity:
        for name, view in (("podAffinity", affinity.pod_affinity), ("podAntiAffinity", affinity.pod_anti_affinity)):
            if view and view.required_during_scheduling_ignored_during_execution:
                fields.append(f"spec.affinity.{name}")
    if any(spread.when_unsatisfiable != "ScheduleAnyway" for spread in spec.topology_spread_constraints or ()):
        fields.append("spec.topologySpreadConstraints")
    fields.extend(
        f"spec.volumes[{volume.name or ''}]"
        for volume in spec.volumes or ()
        if volume.persistent_volume_claim or volume.ephemeral
    )
    if spec.resource_claims:
        fields.append("spec.resourceClaims")
    return tuple(fields)
