"""Facts that only confirm what the claims in the ledgers say: of most pods, that they were bound."""

from msgspec.structs import replace

from deviceshare.model import PodFact, with_made
from deviceshare.scheduler.cluster_state import ClusterState
from deviceshare.scheduler.records import PodRecord


def confirm(cluster: ClusterState, record: PodRecord, fact: PodFact) -> bool:
    """Apply that a pod was bound by its claim; return False, and change nothing, if its fact may change anything else.

    Then the pod holds the same as before on the same node, and counts the same in its queue.
    """
    before, node = record.fact, fact.node
    if before.node or [where for _, where in record.claims] != [node] or not cluster.groups[before.group].single:
        return False
    bound = replace(before, revision=fact.revision, node=node, held=fact.held, signed=fact.signed)
    if bound != fact or before.ask.volumes or before.device_claims or cluster.classifier.outdated:
        return False
    holding = cluster.allocator.holding(node, fact.uid)
    if holding is None or holding.waits_for or holding.resources != cluster.allocator.amounts(before.ask):
        return False
    if with_made(holding.grants, fact.held) != holding.grants or not cluster.accounts.confirm(bound):
        return False
    record.fact = bound
    cluster.candidates.discard(before.group)
    cluster.mark_moved((fact.uid,))
    return True
