"""The policies by name: the one place where a policy is registered.

A card policy (:mod:`.card_policy`) is a module of this package. A queue policy is a module of
:mod:`deviceshare.queueing.policies`, which loads it by its name; here are only the names, since reading a configuration
needs no more.
"""

from deviceshare.policies.binpack import BINPACK
from deviceshare.policies.card_policy import CardPolicy as CardPolicy
from deviceshare.policies.fragmentation import FRAGMENTATION
from deviceshare.policies.no_policy import NO_POLICY
from deviceshare.policies.spread import SPREAD as SPREAD

CARD_POLICIES = {policy.name: policy for policy in (NO_POLICY, BINPACK, SPREAD, FRAGMENTATION)}
"""The card policies; '' is that of Volcano without ``deviceshare.SchedulePolicy``."""
POLICIES = tuple(name for name in CARD_POLICIES if name)
"""The names that users may choose."""

QUEUE_POLICIES = ("priority", "gang", "drf", "sla", "overcommit", "capacity", "proportion")
"""The queue policies, each a plugin of ``volcano-scheduler.conf``. Of several that divide the cluster the last one
counts."""


def card_policy(name: str) -> CardPolicy:
    """Return a card policy: none for a name that a newer version has written, or a device family of another package."""
    return CARD_POLICIES.get(name, NO_POLICY)
