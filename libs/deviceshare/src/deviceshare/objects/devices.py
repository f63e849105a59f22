"""DeviceClasses, DeviceTaintRules, ResourceSlices and ResourceClaims, ``resource.k8s.io``, as facts.

A class, a rule or a slice of which a part is invalid is no fact: see :mod:`deviceshare.families.dra.codec`.
"""

import msgspec

from deviceshare.families.dra.binding_conditions import kept
from deviceshare.families.dra.codec import decode_claim, decode_class, decode_slice, decode_taint_rule
from deviceshare.model import DeviceClaimFact, DeviceClassFact, DeviceSliceFact, DeviceTaintRuleFact, FormatError
from deviceshare.model.device_objects import ClaimSpec, ClaimStatus, Metadata, ResourceClaim


class _Named(msgspec.Struct):
    """A ResourceClaim as far as pods name it."""

    metadata: Metadata
    status: msgspec.Raw = msgspec.Raw()


_NAMED = msgspec.json.Decoder(_Named)
_STATUS = msgspec.json.Decoder(ClaimStatus)


def decode_device_class(raw: bytes) -> DeviceClassFact:
    """Decode a DeviceClass in JSON. Raises FormatError: a part of it is invalid."""
    found = decode_class(raw)
    return DeviceClassFact(revision=found.metadata.resource_version, name=found.metadata.name, spec=found.spec)


def decode_device_slice(raw: bytes) -> DeviceSliceFact:
    """Decode a ResourceSlice in JSON. Raises FormatError: a part of it is invalid."""
    found = decode_slice(raw)
    return DeviceSliceFact(revision=found.metadata.resource_version, name=found.metadata.name, spec=found.spec)


def decode_device_taint_rule(raw: bytes) -> DeviceTaintRuleFact:
    """Decode a DeviceTaintRule in JSON. Raises FormatError: a part of it is invalid."""
    found = decode_taint_rule(raw)
    return DeviceTaintRuleFact(revision=found.metadata.resource_version, name=found.metadata.name, spec=found.spec)


def decode_device_claim(raw: bytes) -> DeviceClaimFact:
    """Decode a ResourceClaim in JSON.

    One with an invalid part has no requests, and a problem, which pods that use it wait with; it still uses the devices
    that it has.

    Raises:
        FormatError: a part of it is invalid, and it has no name that can be read.
    """
    try:
        return _claim_fact(decode_claim(raw))
    except FormatError as error:
        try:
            found = _NAMED.decode(raw)
        except msgspec.MsgspecError:
            raise error from None
        claim = ResourceClaim(metadata=found.metadata, spec=ClaimSpec(), status=_status(found.status))
        return msgspec.structs.replace(_claim_fact(claim), problems=(error.problem,))


def _status(raw: msgspec.Raw) -> ClaimStatus:
    try:
        return _STATUS.decode(raw)
    except msgspec.MsgspecError:
        return ClaimStatus()


def _claim_fact(claim: ResourceClaim) -> DeviceClaimFact:
    metadata, status = claim.metadata, claim.status
    allocation, statuses = kept(status)
    pods = [each for each in status.reserved_for if each.is_pod]
    return DeviceClaimFact(
        revision=metadata.resource_version,
        key=f"{metadata.namespace or 'default'}/{metadata.name}",
        uid=metadata.uid,
        owner=next((each.uid for each in metadata.owner_references if each.controller), ""),
        devices=claim.spec.devices,
        allocation=allocation,
        device_statuses=statuses,
        reserved_for=tuple(each.uid for each in pods),
        reserved_names=tuple(each.name for each in pods),
        terminating=bool(metadata.deletion_timestamp),
        no_finalizers=not metadata.finalizers,
    )
