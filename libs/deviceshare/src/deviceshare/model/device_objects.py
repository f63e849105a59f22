"""The objects of ``resource.k8s.io/v1`` as far as the allocation of devices reads them. Source: types.go of 1.37.2."""

from typing import Any

import msgspec

from deviceshare.model.quantities import Quantity


class _View(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """Fields have the names of the API."""


class Owner(_View, frozen=True):
    """An owner of an object; ``controller``: the one that manages it."""

    uid: str = ""
    controller: bool = False


class Metadata(_View, frozen=True):
    """The identity of an object."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str = ""
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[Owner, ...] = ()


class Requirement(_View, frozen=True):
    """An expression of a node selector."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class Term(_View, frozen=True):
    """A term of a node selector: all its expressions must match."""

    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()


class NodeSelector(_View, frozen=True):
    """A node matches if any term matches."""

    node_selector_terms: tuple[Term, ...] = ()


class Cel(_View, frozen=True):
    """An expression over ``device``."""

    expression: str


class Selector(_View, frozen=True):
    """A selector; without ``cel`` it is of a kind that this version does not know."""

    cel: Cel | None = None


class Attribute(_View, frozen=True):
    """An attribute of a device, of exactly one type; without any it is of a type that this version does not know."""

    string: str | None = None
    version: str | None = None
    strings: tuple[str, ...] | None = None
    versions: tuple[str, ...] | None = None
    ints: tuple[int, ...] | None = None
    bools: tuple[bool, ...] | None = None
    bool_: bool | None = msgspec.field(default=None, name="bool")
    int_: int | None = msgspec.field(default=None, name="int")


class Range(_View, frozen=True):
    """The amounts that may be consumed: ``min + n * step`` up to ``max``."""

    min: Quantity
    max: Quantity | None = None
    step: Quantity | None = None


class RequestPolicy(_View, frozen=True):
    """How a request for a capacity is rounded."""

    default: Quantity | None = None
    valid_values: tuple[Quantity, ...] = ()
    valid_range: Range | None = None


class Capacity(_View, frozen=True):
    """A capacity of a device, or a counter of a set."""

    value: Quantity
    request_policy: RequestPolicy | None = None


class CounterUse(_View, frozen=True):
    """What a device consumes of one counter set."""

    counter_set: str
    counters: dict[str, Capacity] = {}
    compatibility_groups: tuple[str, ...] = ()


class CounterSet(_View, frozen=True):
    """Counters that devices of a pool share."""

    name: str
    counters: dict[str, Capacity] = {}


class Taint(_View, frozen=True):
    """A taint of a device."""

    key: str = ""
    value: str = ""
    effect: str = ""


class TaintSelector(_View, frozen=True):
    """The devices that meet all criteria which are given; without any, all devices.

    Only Kubernetes 1.34 has ``device_class_name`` and ``selectors``.
    """

    driver: str | None = None
    pool: str | None = None
    device: str | None = None
    device_class_name: str | None = None
    selectors: tuple[Selector, ...] = ()


class TaintRuleSpec(_View, frozen=True):
    """The content of a DeviceTaintRule: a taint, and the devices that have it."""

    device_selector: TaintSelector = TaintSelector()
    taint: Taint = Taint()


class DeviceTaintRule(_View, frozen=True):
    """A DeviceTaintRule."""

    metadata: Metadata
    spec: TaintRuleSpec


class Toleration(_View, frozen=True):
    """A toleration of a request."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class Device(_View, frozen=True):
    """A device of a slice."""

    name: str
    attributes: dict[str, Attribute] = {}
    capacity: dict[str, Capacity] = {}
    consumes_counters: tuple[CounterUse, ...] = ()
    node_name: str = ""
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    taints: tuple[Taint, ...] = ()
    binds_to_node: bool = False
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    allow_multiple_allocations: bool = False
    node_allocatable_resources: dict[str, Any] = {}
    node_allocatable_resource_mappings: dict[str, Any] = {}
    """The former name of ``node_allocatable_resources``, in Kubernetes 1.36."""


class PoolOfSlice(_View, frozen=True):
    """The pool of a slice; it is complete with ``resource_slice_count`` slices of its newest generation."""

    name: str
    generation: int = 0
    resource_slice_count: int = 1


class SliceSpec(_View, frozen=True):
    """The content of a ResourceSlice."""

    driver: str
    pool: PoolOfSlice
    node_name: str = ""
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    per_device_node_selection: bool = False
    devices: tuple[Device, ...] = ()
    shared_counters: tuple[CounterSet, ...] = ()
    skip_node_operations: bool | tuple[str, ...] | None = None


class ResourceSlice(_View, frozen=True):
    """A ResourceSlice."""

    metadata: Metadata
    spec: SliceSpec


class Opaque(_View, frozen=True):
    """Parameters for a driver."""

    driver: str
    parameters: Any = None


class Config(_View, frozen=True):
    """Configuration of a class, or of requests of a claim."""

    opaque: Opaque | None = None
    requests: tuple[str, ...] = ()


class ClassSpec(_View, frozen=True):
    """The content of a DeviceClass."""

    selectors: tuple[Selector, ...] = ()
    config: tuple[Config, ...] = ()
    extended_resource_name: str = ""


class DeviceClass(_View, frozen=True):
    """A DeviceClass."""

    metadata: Metadata
    spec: ClassSpec = ClassSpec()


class CapacityRequests(_View, frozen=True):
    """Amounts of the capacities that each device of a request consumes."""

    requests: dict[str, Quantity] = {}


class Exact(_View, frozen=True):
    """What a request or one of its alternatives asks for."""

    name: str = ""
    device_class_name: str = ""
    selectors: tuple[Selector, ...] = ()
    allocation_mode: str = "ExactCount"
    count: int = 1
    admin_access: bool = False
    tolerations: tuple[Toleration, ...] = ()
    capacity: CapacityRequests | None = None
    derived_attributes: tuple[Any, ...] = ()


class Request(_View, frozen=True):
    """A request: ``exactly``, or the first of several alternatives that fits."""

    name: str
    exactly: Exact | None = None
    first_available: tuple[Exact, ...] = ()


class Constraint(_View, frozen=True):
    """A constraint over the devices of some requests, of all without names."""

    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DevicesSpec(_View, frozen=True):
    """The devices that a claim asks for."""

    requests: tuple[Request, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    config: tuple[Config, ...] = ()


class ClaimSpec(_View, frozen=True):
    """The content of a ResourceClaim."""

    devices: DevicesSpec = DevicesSpec()


class Result(_View, frozen=True):
    """A device that a claim has."""

    request: str
    driver: str
    pool: str
    device: str
    admin_access: bool = False
    share_id: str = msgspec.field(default="", name="shareID")
    consumed_capacity: dict[str, Quantity] = {}
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()


class Results(_View, frozen=True):
    """The devices that a claim has."""

    results: tuple[Result, ...] = ()


class AllocationStatus(_View, frozen=True):
    """The allocation of a claim."""

    devices: Results = Results()
    node_selector: NodeSelector | None = None
    allocation_timestamp: str = ""


class Condition(_View, frozen=True):
    """A condition of a device."""

    type: str
    status: str = ""
    reason: str = ""
    message: str = ""


class DeviceStatus(_View, frozen=True):
    """What its driver says about a device that a claim has."""

    driver: str
    pool: str
    device: str
    share_id: str = msgspec.field(default="", name="shareID")
    conditions: tuple[Condition, ...] = ()


class Consumer(_View, frozen=True):
    """A pod that may use a claim, or another object."""

    uid: str
    api_group: str = ""
    resource: str = ""
    name: str = ""

    @property
    def is_pod(self) -> bool:
        """Whether it is a pod."""
        return (self.api_group, self.resource) == ("", "pods")


class ClaimStatus(_View, frozen=True):
    """The status of a claim."""

    allocation: AllocationStatus | None = None
    reserved_for: tuple[Consumer, ...] = ()
    devices: tuple[DeviceStatus, ...] = ()


class ResourceClaim(_View, frozen=True):
    """A ResourceClaim."""

    metadata: Metadata
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()
