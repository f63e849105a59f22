"""Sets the deserved amounts of queue accounts by weight.

Source: Volcano pkg/scheduler/plugins/proportion.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from deviceshare.queueing.capacity import capability
from deviceshare.queueing.proportion import Claimant, deserved
from deviceshare.queueing.queue_account import QueueAccount
from deviceshare.queueing.rounds import deserved_by_rounds


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
