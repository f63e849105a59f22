"""The place of a waiting pod in its queue, in the order in which placement takes the jobs of one queue."""

from collections import Counter, defaultdict
from collections.abc import Callable

from deviceshare.queueing import Group, Job, OrderKey, Queues
from deviceshare.queueing.job_order import JobOrder
from deviceshare.queueing.priority_classes import PriorityClasses
from msgspec.structs import replace

from deviceshare_metrics import api
from deviceshare_metrics.core.facts import PodSeen
from deviceshare_metrics.core.snapshot import is_refused
from deviceshare_metrics.core.state_store import StateStore


def with_queue_position(
    store: StateStore, answer: api.PodExplanation, accounts: Callable[[], Queues]
) -> api.PodExplanation:
    """Return an answer about a pod with its place in its queue, the given one if the pod is not in a queue."""
    if not has_queue_position(answer.pod) or answer.pod is None:
        return answer
    return replace(answer, position=_position(store, answer.pod, accounts()))


def has_queue_position(pod: api.Pod | None) -> bool:
    """Return whether a pod waits in a queue: not with gates or an invalid request, or while it is deleted."""
    return pod is not None and pod.state == "Pending" and not (pod.refused or pod.terminating)


def _position(store: StateStore, pod: api.Pod, accounts: Queues) -> api.QueuePosition | None:
    """Return the place among the jobs: the waiting pods of a PodGroup, or one pod without a PodGroup.

    Jobs with reserved nodes, which go first, are not known here.
    """
    claimed = {claim.uid for ledger in store.ledgers.values() for claim in ledger.claims}
    queues = {group.key: group.queue for group in store.groups.values()}
    waiting: defaultdict[str, list[PodSeen]] = defaultdict(list)
    placed: Counter[str] = Counter()
    own = None
    for each in store.pods.values():
        bound = bool(each.node) or each.uid in claimed
        if each.succeeded or (bound and not each.ended):
            placed[each.group] += 1
        elif (queues.get(each.group, "") or each.queue or "default") == pod.queue and not (
            bound or each.ended or each.terminating or each.gates or is_refused(store, each)
        ):
            waiting[each.group].append(each)
            own = each.group if each.uid == pod.uid else own
    if own is None:
        return None
    keys = _order_keys(store, waiting, placed, accounts)
    before = [group for group in waiting if keys[group] < keys[own]]
    ahead = sum(len(waiting[group]) for group in before)
    return api.QueuePosition(position=len(before) + 1, jobs=len(waiting), pods_before=ahead)


def _order_keys(
    store: StateStore, waiting: dict[str, list[PodSeen]], placed: Counter[str], accounts: Queues
) -> dict[str, OrderKey]:
    classes = PriorityClasses()
    for known in store.classes.values():
        classes.put(known.name, known)
    groups = {group.key: group for group in store.groups.values()}
    order = JobOrder(accounts.policies)
    keys = {}
    for key, pods in waiting.items():
        fact = groups.get(pods[0].group)
        minimum = 1 if fact is None else fact.min_member
        job = Job(
            queue=pods[0].queue,
            group=Group(key=pods[0].group, pods=(), minimum=minimum, placed=placed[key], best_effort=0),
            priority=max(pod.priority for pod in pods) if fact is None else classes.of(fact),
            created=min(pod.created for pod in pods) if fact is None else fact.created,
            waiting_time=None if fact is None else fact.waiting_time,
        )
        keys[key] = order.key(job, accounts.dominant_share(job.key))
    return keys
