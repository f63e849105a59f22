"""Lists of resources (``capability``, ``minResources``, …) as amounts."""

from deviceshare.model import FormatError, Problem, Resources, is_native, to_amount
from deviceshare.objects.views import Quantities
from deviceshare.state import PODS

_OF_KUBERNETES = "kubernetes.io/"
"""Part of the names of Kubernetes' native resources; names without a domain are native, too."""


def read_amounts(quantities: Quantities | None, subject: str, field: str, problems: list[Problem]) -> Resources:
    """Return amounts of the resources that Volcano's scheduler counts (:func:`is_counted`).

    Malformed amounts are appended to ``problems`` and omitted.
    """
    amounts: Resources = {}
    for resource, quantity in sorted((quantities or {}).items()):
        if not is_counted(resource):
            continue
        try:
            amounts[resource] = to_amount(resource, quantity, subject, f"{field}[{resource}]", FormatError)
        except FormatError as error:
            problems.append(error.problem)
    return amounts


def is_counted(resource: str) -> bool:
    """Return whether Volcano's scheduler counts a resource in a list.

    It ignores the names of a ResourceQuota (``requests.cpu``, ``limits.memory``, ``requests.nvidia.com/gpu``,
    ``count/pods``), which its controllers write into ``minResources`` besides the plain names. Source: NewResource of
    pkg/scheduler/api/resource_info.go, IsScalarResourceName of kubernetes/pkg/scheduler/util/utils.go.
    """
    if resource.startswith("count/"):
        return False
    if "/" not in resource:
        return is_native(resource) or resource == PODS or resource.startswith("attachable-volumes-")
    return _OF_KUBERNETES in resource or not resource.startswith("requests.")
