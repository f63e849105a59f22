"""Dynamic Resource Allocation (``resource.k8s.io/v1``): the devices of ResourceClaims.

:mod:`deviceshare.model.device_objects` are the objects, :mod:`.codec` reads them, :mod:`.validation` checks them,
:mod:`.pools` are what a node sees, :mod:`.selectors` and :mod:`.cel` evaluate CEL, :mod:`.capacity`,
:mod:`.compatibility`, :mod:`.constraints` and :mod:`.taints` are rules for one device, :mod:`.taint_rules` taints
devices, :mod:`.requests` and :mod:`.matching` are what a claim asks for, :mod:`.solver` searches, and :mod:`.results`
is what the API server stores. :mod:`.binding_conditions` are what has to be true before a pod is bound.

:class:`ClusterDevices` has what is known of a cluster, :mod:`.in_use` the devices that claims have, :func:`why_not`
says why claims do not fit on a node, and :func:`conflicts` finds devices that schedulers gave twice. :mod:`.quota` is
what claims count in queues.
"""

from deviceshare.families.dra.best_fit import device_order
from deviceshare.families.dra.binding_conditions import BINDING_TIMEOUT, DeviceBinding, binding_of
from deviceshare.families.dra.cluster_devices import ClusterDevices
from deviceshare.families.dra.conflicts import DeviceConflict, new_conflicts, overused
from deviceshare.families.dra.diagnosis import DeviceReason, why_not
from deviceshare.families.dra.errors import AllocationError
from deviceshare.families.dra.in_use import device_result
from deviceshare.families.dra.layout import Layout
from deviceshare.families.dra.quota import given_devices, is_of_class, requested_devices
from deviceshare.families.dra.results import allocation, local
from deviceshare.families.dra.solver import MAX_STEPS, Answer, Solver

__all__ = [
    "BINDING_TIMEOUT",
    "MAX_STEPS",
    "AllocationError",
    "Answer",
    "ClusterDevices",
    "DeviceBinding",
    "DeviceConflict",
    "DeviceReason",
    "Layout",
    "Solver",
    "allocation",
    "binding_of",
    "device_order",
    "device_result",
    "given_devices",
    "is_of_class",
    "local",
    "new_conflicts",
    "overused",
    "requested_devices",
    "why_not",
]
