"""Decoding of resource lists (``capability``, ``minResources``, …)."""

from deviceshare.model import FormatError, Problem, Resources, is_native, to_amount
from deviceshare.objects.views import Quantities
from deviceshare.state import PODS

_OF_KUBERNETES = "kubernetes.io/"
"""Part of the names of resources defined by Kubernetes; names without a domain are also defined by Kubernetes."""


def read_amounts(quantities: Quantities | None, subject: str, field: str, problems: list[Problem]) -> Resources:
    """Return the amounts of the resources that Volcano's scheduler counts (:func:`is_counted`).

    Omits invalid amounts and appends them to ``problems``.
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
    """Return whether Volcano's scheduler counts a resource of a list.

    It ignores the names of a ResourceQuota (``requests.cpu``, ``limits.memory``, ``requests.nvidia.com/gpu``,
    ``count/pods``), which Volcano's controllers add to ``minResources``. Source: NewResource of
    pkg/scheduler/api/resource_info.go, IsScalarResourceName of kubernetes/pkg/scheduler/util/utils.go.
    """
    if resource.startswith("count/"):
        return False
    if "/" not in resource:
        return is_native(resource) or resource == PODS or resource.startswith("attachable-volumes-")
    return _OF_KUBERNETES in resource or not resource.startswith("requests.")
