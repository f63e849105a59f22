"""The place of a waiting pod in its queue, in the order in which placement takes the jobs of one queue."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import groupby
from math import inf

from deviceshare.queueing import Group, Job, OrderKey, Queues
from deviceshare.queueing.job_order import JobOrder
from deviceshare.queueing.priority_classes import PriorityClasses

from deviceshare_metrics import api
from deviceshare_metrics.core.facts import PodSeen
from deviceshare_metrics.core.snapshot import is_refused
from deviceshare_metrics.core.state_store import StateStore


def has_queue_position(pod: api.Pod | None) -> bool:
    """Return whether a pod waits in a queue: not with gates or an invalid request, or while it is deleted."""
    return pod is not None and pod.state == "Pending" and not (pod.refused or pod.terminating)


def queue_positions(store: StateStore, accounts: Queues) -> dict[str, api.QueuePosition]:
    """Return the place of each waiting pod, by uid: of its job, the waiting pods of a PodGroup, or one pod without.

    Jobs with reserved nodes, which go first, are not known here.
    """
    claimed = {claim.uid for ledger in store.ledgers.values() for claim in ledger.claims}
    queues = {group.key: group.queue for group in store.groups.values()}
    waiting: defaultdict[str, defaultdict[str, list[PodSeen]]] = defaultdict(lambda: defaultdict(list))
    placed: Counter[str] = Counter()
    for each in store.pods.values():
        bound = bool(each.node) or each.uid in claimed
        if each.succeeded or (bound and not each.ended):
            placed[each.group] += 1
        elif not (bound or each.ended or each.terminating or each.gates or is_refused(store, each)):
            waiting[queues.get(each.group, "") or each.queue or "default"][each.group].append(each)
    found: dict[str, api.QueuePosition] = {}
    for jobs in waiting.values():
        keys, priorities = _order_keys(store, jobs, placed, accounts)
        position, before, highest = 1, 0, -inf
        for _, alike in groupby(sorted(jobs, key=keys.__getitem__), keys.__getitem__):
            members = [*alike]
            for job in members:
                higher = priorities[job] < highest
                place = api.QueuePosition(position=position, jobs=len(jobs), pods_before=before, higher_before=higher)
                found.update({pod.uid: place for pod in jobs[job]})
            position, before = position + len(members), before + sum(len(jobs[job]) for job in members)
            highest = max(highest, *(priorities[job] for job in members))
    return found


def _order_keys(
    store: StateStore, waiting: Mapping[str, list[PodSeen]], placed: Counter[str], accounts: Queues
) -> tuple[dict[str, OrderKey], dict[str, int]]:
    classes = PriorityClasses()
    for known in store.classes.values():
        classes.put(known.name, known)
    groups = {group.key: group for group in store.groups.values()}
    order = JobOrder(accounts.policies)
    keys, priorities = {}, {}
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
        priorities[key] = job.priority
    return keys, priorities
