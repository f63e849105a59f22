"""What a scheduler knows of its cluster."""

from collections.abc import Iterator, Mapping

from deviceshare.conf import SchedulerConf
from deviceshare.model import Claim, GroupKey, NodeFact, PodFact, QueueFact
from deviceshare.scheduler import holders
from deviceshare.scheduler.cluster_state import ClusterState
from deviceshare.scheduler.going_pods import Nomination
from deviceshare.scheduler.holders import HolderOnNode
from deviceshare.scheduler.nominated_groups import level_of
from deviceshare.scheduler.readiness import queue_obstacle
from deviceshare.scheduler.records import ClaimNodes, GroupRecord, LedgerRecord, PodRecord
from deviceshare.state import Holding
from deviceshare.volumes import Catalog


class Known:
    """The objects of the cluster, and who holds what."""

    def __init__(self) -> None:
        self.cluster = ClusterState()
        """What is known of the cluster, to be read."""

    @property
    def pods(self) -> Mapping[str, PodRecord]:
        """The pods by uid."""
        return self.cluster.pods

    @property
    def has_explained(self) -> bool:
        """Whether there are pods with an explanation on EXPLAIN, which does not expire before they are deleted."""
        return any(pod.explained for pod in self.cluster.pods.values())

    @property
    def groups(self) -> Mapping[GroupKey, GroupRecord]:
        """The groups by key."""
        return self.cluster.groups

    def group(self, key: GroupKey) -> GroupRecord:
        """Return a group, a new one if it was never seen."""
        return self.cluster.group(key)

    @property
    def queues(self) -> Mapping[str, QueueFact]:
        """The facts of the queues by name."""
        return self.cluster.queues

    @property
    def ledgers(self) -> Mapping[str, LedgerRecord]:
        """The known ledgers by node."""
        return self.cluster.ledgers

    def ledger(self, node: str) -> LedgerRecord:
        """Return a node's ledger, an empty one if there is none."""
        return self.cluster.ledger(node)

    def claims_of(self, uid: str) -> ClaimNodes:
        """Return the id and the node of each claim of a pod, whether or not the pod is known."""
        return self.cluster.claims_of(uid)

    def claim_on(self, node: str, uid: str) -> Claim | None:
        """Return a pod's claim on a node, or None."""
        return self.cluster.claim_on(node, uid)

    @property
    def has_nominations(self) -> bool:
        """Whether there are nominations."""
        return bool(self.cluster.going)

    @property
    def nominations(self) -> list[Nomination]:
        """The nominations of all ledgers, in the order of their first claims."""
        return self.cluster.going.nominations

    def is_nominated(self, uid: str) -> bool:
        """Return whether a pod has a claim that waits for other pods to go."""
        ledgers = self.cluster.ledgers
        return any(ledgers[node].claims[claim].waits_for for claim, node in self.claims_of(uid))

    @property
    def conf(self) -> SchedulerConf:
        """The configuration by which it decides."""
        return self.cluster.allocator.conf

    def node(self, name: str) -> NodeFact | None:
        """Return the fact of a node, or None."""
        return self.cluster.allocator.node(name)

    def queue_of(self, pod: PodFact) -> str:
        """Return the name of the queue that a pod is in."""
        return self.cluster.queue_of(pod)

    def job_priority_of(self, pod: PodFact) -> int:
        """Return the priority of a pod's job: that of its PodGroup, or its own without one."""
        _, priority = level_of(self.cluster, pod)
        return priority

    def queue_of_group(self, group: GroupRecord) -> str:
        """Return the name of the queue that a group is in."""
        return self.cluster.queue_of_group(group)

    def waiting(self) -> Mapping[str, int]:
        """Return the number of groups that wait for capacity in each queue."""
        return self.cluster.dispatcher.waiting()

    def lacking(self) -> Mapping[str, tuple[int, list[str]]]:
        """Return the queues that have less than they deserve and request: see :meth:`.QueueLimits.lacking`."""
        self.cluster.accounts.refresh()
        return dict(self.cluster.accounts.lacking())

    @property
    def catalog(self) -> Catalog:
        """The volumes of the cluster that pods use."""
        return self.cluster.allocator.volumes.catalog

    def holding(self, node: str, uid: str) -> Holding | None:
        """Return what a pod holds on a node, or None."""
        return self.cluster.allocator.holding(node, uid)

    def holders_on(self, node: str) -> Iterator[HolderOnNode]:
        """Yield the pods with a claim on a node, then those that are bound there without one."""
        return holders.on_node(self.cluster, node)

    def holders_of(self, queue: str) -> Iterator[tuple[PodFact, Mapping[str, int]]]:
        """Yield the placed pods of a queue and of its descendants, with what they count there."""
        return holders.in_queue(self.cluster, queue)

    def queue_obstacle(self, pod: PodFact) -> str:
        """Return why the queue of a pod serves none of its kind, '' if it does."""
        return queue_obstacle(self.cluster, self.queue_of(pod), "", pod.namespace)
