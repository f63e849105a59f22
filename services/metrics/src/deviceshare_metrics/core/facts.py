"""The facts of CLUSTER as this service decodes them."""

from typing import get_args

import msgspec
from deviceshare.model import (
    Amount,
    ConfigFact,
    ContainerGrant,
    DeviceClaimFact,
    DeviceClassFact,
    Fact,
    Gone,
    GroupKey,
    NamespaceFact,
    NodeFact,
    OtherPodFact,
    PodDeviceClaim,
    PodGroupFact,
    PodRequest,
    PodUid,
    PriorityClassFact,
    Problem,
    QueueFact,
    Real,
    Synced,
)
from deviceshare_bus.messages.subjects import FACT_KINDS, kind_of
from deviceshare_bus.messages.validation import UNDECODABLE

from deviceshare_metrics.core.claimed_devices import DeviceSliceSeen


class PodSeen(Fact, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="pod"):
    """A :class:`~deviceshare.model.PodFact` whose ``ask``, the largest part, stays undecoded."""

    uid: PodUid
    namespace: str
    name: str
    scheduler: str = ""
    priority: Amount = 0
    created: Real = 0.0
    node: str = ""
    ended: bool = False
    succeeded: bool = False
    terminating: bool = False
    gates: tuple[str, ...] = ()
    group: GroupKey = GroupKey("")
    queue: str = ""
    ask: msgspec.Raw = msgspec.Raw(b"\x80")
    held: tuple[ContainerGrant, ...] = ()
    device_claims: tuple[PodDeviceClaim, ...] = ()
    owner: str = ""
    problems: tuple[Problem, ...] = ()


AnyFact = (
    NodeFact
    | PodSeen
    | OtherPodFact
    | PodGroupFact
    | PriorityClassFact
    | QueueFact
    | NamespaceFact
    | ConfigFact
    | DeviceClassFact
    | DeviceSliceSeen
    | DeviceClaimFact
    | Gone
    | Synced
)
KINDS = FACT_KINDS.intersection(map(kind_of, get_args(AnyFact)))
"""Their kinds; the other facts do not concern this service."""
decode_fact = msgspec.msgpack.Decoder(AnyFact).decode
_decode_request = msgspec.msgpack.Decoder(PodRequest).decode


def decoded_request(ask: bytes | msgspec.Raw) -> PodRequest | None:
    """Return the request of a pod, None if it cannot be decoded."""
    try:
        return _decode_request(ask)
    except UNDECODABLE:
        return None
