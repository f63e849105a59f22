"""The queue policies. Each is a module of the policy's name with the constant ``POLICY``, its class.

:data:`deviceshare.policies.QUEUE_POLICIES` lists them; :mod:`.queue_policy` says what a policy is.
"""

from collections.abc import Mapping
from importlib import import_module

from deviceshare.conf import SchedulerConf
from deviceshare.policies import QUEUE_POLICIES
from deviceshare.queueing.policies.queue_policy import (
    Application as Application,
    OrderKey as OrderKey,
    QueuePolicy as QueuePolicy,
)

_CLASSES: Mapping[str, type[QueuePolicy]] = {
    name: import_module(f"{__name__}.{name}").POLICY for name in QUEUE_POLICIES
}


class QueuePolicies:
    """The queue policies of a configuration. ``total``: what the cluster has, by resource."""

    def __init__(self, conf: SchedulerConf, total: Mapping[str, int]) -> None:
        names = {plugin.name for tier in conf.tiers for plugin in tier}
        policies = {name: policy(conf, total) for name, policy in _CLASSES.items() if name in names}
        self._tiers = [
            [(plugin.off, policies[plugin.name]) for plugin in tier if plugin.name in policies] for tier in conf.tiers
        ]
        ruling = {*self.having("Allocatable"), *self.having("QueueOrder")}
        self.dividing = [policy for policy in policies.values() if policy.divides and policy in ruling]
        """Those that say what queues deserve; the last one counts."""
        self.ordering = [self.dividing[-1] if policy.divides else policy for policy in self.having("QueueOrder")]
        """Those that order queues."""
        self.hierarchical = any(policy.hierarchical for policy in self.dividing)
        """Whether queues have parents."""
        self.tree = next((policy.tree for policy in policies.values() if policy.tree is not None), None)
        """The shares that the accounts keep up to date, if a policy has some."""

    def tiers_having(self, function: str) -> list[list[QueuePolicy]]:
        """Return by tier the policies of which a function of Volcano's plugins (``JobOrder``, …) is on."""
        return [[policy for off, policy in tier if function not in off] for tier in self._tiers]

    def having(self, function: str) -> list[QueuePolicy]:
        """Return the policies of which a function is on, in the order of the tiers."""
        return [policy for tier in self.tiers_having(function) for policy in tier]

    def bound_queues(self, function: str) -> bool:
        """Return whether a policy that bounds queues has this function on."""
        return any(policy.divides for policy in self.having(function))
