"""The facts of DeviceClasses, DeviceTaintRules, ResourceSlices and ResourceClaims, ``resource.k8s.io``.

They have the parts of the objects that decide which devices a claim gets, in the form of
:mod:`deviceshare.model.device_objects`.
"""

from msgspec.structs import replace

from deviceshare.model.device_objects import (
    AllocationStatus,
    ClassSpec,
    DevicesSpec,
    DeviceStatus,
    SliceSpec,
    TaintRuleSpec,
)
from deviceshare.model.facts import Fact
from deviceshare.model.problems import Problem


class DeviceClassFact(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="deviceclass"):
    """A DeviceClass."""

    name: str
    spec: ClassSpec = ClassSpec()
    problems: tuple[Problem, ...] = ()


class DeviceSliceFact(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="deviceslice"):
    """A ResourceSlice: devices of a pool that a driver has published."""

    name: str
    spec: SliceSpec
    problems: tuple[Problem, ...] = ()

    def without_devices(self) -> "DeviceSliceFact":
        """Return the slice without what makes it large: all that it takes to remove it."""
        return replace(self, spec=replace(self.spec, devices=(), shared_counters=()))


class DeviceClaimFact(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="deviceclaim"):
    """A ResourceClaim; ``key`` is its ``namespace/name``."""

    named_by = "key"
    key: str
    uid: str = ""
    owner: str = ""
    """The uid of the object that controls it, '' for none: of the pod if it was made of a template."""
    devices: DevicesSpec = DevicesSpec()
    allocation: AllocationStatus | None = None
    """Its devices; None: it is not allocated. The time is that of devices with binding conditions alone."""
    device_statuses: tuple[DeviceStatus, ...] = ()
    """Of its devices with binding conditions those of these conditions that are true; no others are here."""
    reserved_for: tuple[str, ...] = ()
    """The uids of the pods that may use it."""
    reserved_names: tuple[str, ...] = ()
    """Their names, in the same order; empty in facts of earlier versions."""
    terminating: bool = False
    no_finalizers: bool = False
    """Whether it has none at ``revision``; False in facts of earlier versions."""
    problems: tuple[Problem, ...] = ()


class DeviceTaintRuleFact(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="devicetaintrule"):
    """A DeviceTaintRule."""

    name: str
    spec: TaintRuleSpec
    problems: tuple[Problem, ...] = ()


DeviceFact = DeviceClassFact | DeviceSliceFact | DeviceClaimFact | DeviceTaintRuleFact
"""The facts of devices. CLUSTER has them only where pods that deviceshare places use ResourceClaims."""
