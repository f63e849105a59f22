"""In-place resize of CPU and memory: what a pod on a node counts while its spec and its containers differ.

Each container counts the largest of what its spec requests, what its kubelet has allocated, and what is in effect;
without its spec if the kubelet has called the resize infeasible. Source: kubernetes/component-helpers,
resource/helpers.go (PodRequests with UseStatusResources), and kube-scheduler, which uses it for pods on nodes.
"""

from collections.abc import Sequence
from functools import lru_cache

import msgspec
from msgspec.structs import replace

from deviceshare.model import ContainerRequest, InputError, PodRequest, ResourceAmounts, to_amount
from deviceshare.objects.pod_views import (
    ABSENT,
    ContainerStatus,
    PodCondition,
    PodStatus,
    ReportedStatus,
    ResourceRequirements,
    TemplateStatus,
)
from deviceshare.objects.views import Quantities

RESIZED = ("cpu", "memory")
"""The resources that can be resized."""
_INFEASIBLE = "Infeasible"
_PENDING = "PodResizePending"
_REPORTED = b'"requests":'
_ALLOCATED = b'"allocatedResources":'
"""In the bytes of a status that may differ from the spec."""
_STATUSES = msgspec.json.Decoder(list[ReportedStatus] | None)
_CONDITIONS = msgspec.json.Decoder(list[PodCondition] | None)
_QUANTITIES = msgspec.json.Decoder(Quantities | None)
_MALFORMED = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

_Reported = tuple[tuple[str | None, bytes, bytes], ...]
"""The name of each container, and the bytes of the amounts in effect and of the allocated ones."""


def with_status(request: PodRequest, status: PodStatus | TemplateStatus) -> PodRequest:
    """Return the request of a pod on a node with the amounts of its status; an equal one if nothing differs.

    A status that cannot be decoded, and amounts that are invalid, count nothing: only kubelets write them.
    """
    if isinstance(status, TemplateStatus):
        return _with_template(request, status)
    return _with_statuses(
        request,
        status.container_statuses,
        status.init_container_statuses,
        _is_infeasible(status.resize, status.conditions),
    )


def _with_template(request: PodRequest, status: TemplateStatus) -> PodRequest:
    if status.container_statuses is ABSENT and status.init_container_statuses is ABSENT:
        return request
    parts = (bytes(status.container_statuses), bytes(status.init_container_statuses))
    if not any(_REPORTED in part or _ALLOCATED in part for part in parts):
        return request
    try:
        of_containers, of_init_containers = (_reported(part) for part in parts)
        # Of most pods no resize is pending.
        conditions = _CONDITIONS.decode(status.conditions) if _PENDING.encode() in bytes(status.conditions) else None
    except _MALFORMED:
        return request
    return _with_reported(request, of_containers, of_init_containers, _is_infeasible(status.resize, conditions))


def _reported(part: bytes) -> _Reported:
    """Return the reported amounts of all containers. Raises as msgspec."""
    if part == b"null":
        return ()
    return tuple(
        (
            each.name,
            b"null" if each.resources is None else bytes(each.resources.requests),
            bytes(each.allocated_resources),
        )
        for each in _STATUSES.decode(part) or ()
    )


@lru_cache(maxsize=1024)
def _with_reported(
    request: PodRequest, of_containers: _Reported, of_init_containers: _Reported, infeasible: bool
) -> PodRequest:
    """Return the request with reported amounts. Those of all running pods of a template have the same bytes."""
    try:
        return _with_statuses(request, _decoded(of_containers), _decoded(of_init_containers), infeasible)
    except _MALFORMED:
        return request


def _decoded(reported: _Reported) -> list[ContainerStatus]:
    return [
        ContainerStatus(name, ResourceRequirements(_QUANTITIES.decode(in_effect)), _QUANTITIES.decode(allocated))
        for name, in_effect, allocated in reported
    ]


def _with_statuses(
    request: PodRequest,
    of_containers: Sequence[ContainerStatus] | None,
    of_init_containers: Sequence[ContainerStatus] | None,
    infeasible: bool,
) -> PodRequest:
    containers = _resized(request.containers, of_containers, infeasible)
    init_containers = _resized(request.init_containers, of_init_containers, infeasible)
    if containers is request.containers and init_containers is request.init_containers:
        return request
    return replace(request, containers=containers, init_containers=init_containers)


def _is_infeasible(resize: str | None, conditions: Sequence[PodCondition] | None) -> bool:
    """Return whether the kubelet has refused the requested resize for good."""
    if resize == _INFEASIBLE:
        return True  # before Kubernetes 1.33
    return any(each.type == _PENDING and each.reason == _INFEASIBLE for each in conditions or ())


def _resized(
    containers: tuple[ContainerRequest, ...], statuses: Sequence[ContainerStatus] | None, infeasible: bool
) -> tuple[ContainerRequest, ...]:
    by_name = {each.name or "": each for each in statuses or ()}
    found = tuple(_of_container(each, by_name.get(each.name), infeasible) for each in containers)
    return containers if found == containers else found


def _of_container(container: ContainerRequest, status: ContainerStatus | None, infeasible: bool) -> ContainerRequest:
    if status is None:
        return container
    reported = [_amounts(status.allocated_resources)]
    if status.resources is not None:
        reported.append(_amounts(status.resources.requests))
    amounts = dict(container.resources)
    for name in RESIZED:
        known = [each[name] for each in reported if name in each]
        if name in amounts and not (infeasible and known):
            known.append(amounts[name])
        if known:
            amounts[name] = max(known)
    resources: ResourceAmounts = tuple(sorted(amounts.items()))
    return container if resources == container.resources else replace(container, resources=resources)


def _amounts(given: Quantities | None) -> dict[str, int]:
    found = {}
    for name in RESIZED:
        if given and name in given:
            try:
                found[name] = to_amount(name, given[name], "", name)
            except InputError:
                continue
    return found
