"""The policy ``proportion``: queues deserve a part of the cluster by their weight, and borrow more.

Source: Volcano pkg/scheduler/plugins/proportion.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from math import inf

from deviceshare.queueing.bounds import capability
from deviceshare.queueing.policies.queue_policy import Application, OrderKey, QueuePolicy
from deviceshare.queueing.proportion import Claimant, deserved, share
from deviceshare.queueing.proportion_rounds import deserved_by_rounds
from deviceshare.queueing.queue_account import QueueAccount
from deviceshare.queueing.shortage import Shortage


class ProportionPolicy(QueuePolicy):
    """Divides the cluster by weight."""

    divides = True
    limits_deserved = True

    def queue_key(self, account: QueueAccount, *, borrowing: bool) -> OrderKey:
        """Return the priority of the queue and its share; a queue that deserves nothing borrows last."""
        last = borrowing and account.deserves_nothing
        return (-account.fact.priority, inf if last else share(account.used, account.deserved))

    def divide(self, accounts: Mapping[str, QueueAccount], existing: Collection[str]) -> None:
        """Set the deserved amounts; pods of a queue that does not exist count in no queue."""
        known = [account for name, account in accounts.items() if name in existing]
        set_by_weight(known, self.total, exact=self.conf.extensions.exact_shares)

    def admit(self, application: Application) -> Shortage | bool:
        """Admit what is within the capability of the queue."""
        return application.limits.capability_shortage(application.account, application.needs) or True


def set_by_weight(accounts: Iterable[QueueAccount], total: Mapping[str, int], *, exact: bool) -> None:
    """Set the deserved amounts: ``exact``, or by Volcano's rounds."""
    # A queue with a guarantee counts even without pods.
    accounts = [account for account in accounts if account.pods or account.fact.guarantee]
    if exact:
        found = deserved(total, [_claimant(account) for account in accounts])
    else:
        guaranteed = sum((Counter(account.fact.guarantee) for account in accounts), Counter[str]())
        accounts = [account for account in accounts if account.pods]
        found = deserved_by_rounds(total, [_claimant(account) for account in accounts], guaranteed)
    for account, fair in zip(accounts, found, strict=True):
        account.deserved = fair


def _claimant(account: QueueAccount) -> Claimant:
    return Claimant(account.fact.weight, account.requested, capability(account.fact), account.fact.guarantee)


POLICY = ProportionPolicy
