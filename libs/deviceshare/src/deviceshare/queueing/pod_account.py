"""What one pod counts in its queue."""

from collections.abc import Mapping
from functools import lru_cache

import msgspec

from deviceshare.model import ContainerGrant, DeviceClaim, GroupKey, PodFact, ResourceAmounts
from deviceshare.queueing.queue_account import QueueAccount


class PodAccount(msgspec.Struct, eq=False):
    """A waiting or placed pod in the account of its queue; ``held``: whether it is charged there."""

    pod: PodFact | None
    """None: only its claim is known."""
    account: QueueAccount
    group: GroupKey
    own: ResourceAmounts
    """What it counts without its ResourceClaims."""
    amounts: ResourceAmounts
    alone: bool
    """Whether the pod has no PodGroup: nothing admits it, so that its queue promises it nothing before it is placed."""
    held: bool = False
    claimed: tuple[ContainerGrant, ...] | None = None
    """What its claim gives the pod while it is not bound."""
    created: float = 0.0
    """When the pod was created, unix seconds; 0 if only its claim is known."""
    uses: tuple[str, ...] = ()
    """Its ResourceClaims (``namespace/name``), in their order; '' for one that is not made yet."""
    devices: tuple[DeviceClaim, ...] = ()
    """What was decided for them, in the same order; (): nothing."""


@lru_cache(maxsize=4096)
def amounts_by_resource(amounts: ResourceAmounts) -> Mapping[str, int]:
    """Return amounts by resource, one object for all pods with the same amounts. It must not be changed."""
    return dict(amounts)
