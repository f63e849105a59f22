"""Decoding of resource lists (``capability``, ``minResources``, …)."""

from deviceshare.model import Resources, is_native
from deviceshare.objects.problems import Problems
from deviceshare.objects.views import Quantities
from deviceshare.state import PODS

_OF_KUBERNETES = "kubernetes.io/"
"""Part of the names of resources defined by Kubernetes; names without a domain are also defined by Kubernetes."""


def counted_amounts(quantities: Quantities | None, field: str, problems: Problems) -> Resources:
    """Return the valid amounts of the resources that Volcano's scheduler counts (:func:`is_counted`)."""
    counted = {name: quantity for name, quantity in (quantities or {}).items() if is_counted(name)}
    return problems.valid_amounts(counted, field)


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
