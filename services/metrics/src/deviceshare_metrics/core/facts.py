"""The facts of CLUSTER as this service decodes them."""

import msgspec
from deviceshare.model import (
    ConfigFact,
    ContainerGrant,
    Fact,
    Gone,
    GroupKey,
    NamespaceFact,
    NodeFact,
    OtherPodFact,
    PodGroupFact,
    PodUid,
    PriorityClassFact,
    Problem,
    QueueFact,
    Real,
    Synced,
)


class PodSeen(Fact, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="pod"):
    """A :class:`~deviceshare.model.PodFact` whose ``ask``, the largest part, stays undecoded."""

    uid: PodUid
    namespace: str
    name: str
    scheduler: str = ""
    created: Real = 0.0
    node: str = ""
    ended: bool = False
    gates: tuple[str, ...] = ()
    group: GroupKey = GroupKey("")
    queue: str = ""
    ask: msgspec.Raw = msgspec.Raw(b"\x80")
    held: tuple[ContainerGrant, ...] = ()
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
    | Gone
    | Synced
)
decode_fact = msgspec.msgpack.Decoder(AnyFact).decode
