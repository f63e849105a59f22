"""Whether a group can be decided now, and otherwise what it waits for."""

from collections import Counter
from collections.abc import Mapping

import msgspec

from deviceshare.model import DEFAULT_QUEUE, PodFact, PodGroupFact, QueueFact
from deviceshare.queueing import Group, Job, OrderKey, QueuePolicy
from deviceshare.scheduler import explaining
from deviceshare.scheduler.cluster_state import ClusterState
from deviceshare.scheduler.explaining import Obstacle
from deviceshare.scheduler.records import GroupRecord, PodRecord

_INDEXED_PARTS = 3
"""Parts of the name of a Job's pod, at least: the names of the Job and the task, and the index."""
_NOMINATED = "pods of its gang are nominated, and wait for other pods to go"
_WITHDRAWING = "claims of its gang are being withdrawn, since the gang lost a node"


class Readiness(msgspec.Struct):
    """The job to decide, None for none, and the pods that cannot be decided, each with the reason."""

    job: Job | None = None
    obstacles: list[tuple[PodFact, Obstacle]] = []


def readiness(cluster: ClusterState, record: GroupRecord, retries: Mapping[str, float], now: float) -> Readiness:
    """Check the members of a group: which ones wait, which cannot be decided, and whether they are enough.

    ``retries`` maps pods whose claim was refused to the monotonic times at which they may be decided again.
    """
    if record.single and (job := _single_job(cluster, record, retries, now)) is not None:
        return Readiness(job)
    members = [cluster.pods[uid] for uid in sorted(record.members)]
    waiting = [member for member in members if member.waits]
    found = Readiness()
    if not waiting:
        return found
    able = []
    gated = 0
    for member in waiting:
        gated += bool(member.fact.gates)
        if own := _own_obstacle(member):
            found.obstacles.append((member.fact, Obstacle(own)))
        else:
            able.append(member)
    if not able:
        return found
    if any(_is_withdrawing(cluster, member) and not member.fact.node for member in members):
        # A gang that lost a node is decided as a whole, when all of it is back.
        found.obstacles += [(member.fact, Obstacle(_WITHDRAWING)) for member in able]
        return found
    if any(retries.get(member.fact.uid, 0.0) > now for member in able):
        found.obstacles += [
            (member.fact, Obstacle(f"binding was refused: {member.refusal}; it will be tried again"))
            for member in able
            if member.refusal
        ]
        return found
    able = _without_closed_queue(cluster, record, able, found)
    if not able:
        return found
    if cluster.going and (nominated := _nominated(cluster, record, members)):
        found.obstacles += [(member.fact, Obstacle(nominated)) for member in able]
        return found
    minimum, text = _terms(cluster, record, members[0].fact)
    obstacle = Obstacle(text) if text else None
    able = _in_order(able, cluster.accounts.policies.having("TaskOrder"))
    group = Group(
        key=record.key,
        pods=tuple(member.fact for member in able),
        minimum=minimum,
        placed=sum(1 for member in members if member.placed),
        tasks=_tasks(record, members) if minimum else (),
    )
    if obstacle is None and (group.missing > len(group.pods) or group.short(Counter(pod.task for pod in group.pods))):
        obstacle = explaining.members_missing(group, len(members), gated)
    job = _job(cluster, record, group, [member.fact for member in members])
    if obstacle is None and (action := cluster.dispatcher.serves(job)):
        obstacle = Obstacle(f"the action {action!r} is not configured, which serves such pods")
    if obstacle is not None:
        found.obstacles += [(pod, obstacle) for pod in group.pods]
    else:
        found.job = job
    return found


def _own_obstacle(member: PodRecord) -> str:
    """Return why a pod cannot be decided, whatever else there is; '' if nothing of its own prevents it."""
    fact = member.fact
    if fact.gates:
        return f"waits for scheduling gates: {', '.join(fact.gates)}"
    if member.invalid:
        return f"the message about the pod in CLUSTER is not valid: {member.invalid}"
    return "; ".join(map(str, fact.problems))


def _is_withdrawing(cluster: ClusterState, pod: PodRecord) -> bool:
    """Return whether all claims of a pod are being withdrawn."""
    ledgers = cluster.ledgers
    return bool(pod.claims) and all(
        ledgers[node].claims[claim].withdraw or claim in ledgers[node].withdraw for claim, node in pod.claims
    )


def _nominated(cluster: ClusterState, record: GroupRecord, members: list[PodRecord]) -> str:
    """Return that pods of a gang wait for others to go without which it does not have its minimum, '' if none do."""
    if record.fact is None or record.fact.min_member <= 1:
        return ""
    waiting = {
        member.fact.uid
        for member in members
        for claim, node in member.claims
        if cluster.ledgers[node].claims[claim].waits_for and not member.fact.node
    }
    placed = sum(member.placed and member.fact.uid not in waiting for member in members)
    return _NOMINATED if waiting and placed < record.fact.min_member else ""


def _single_job(cluster: ClusterState, record: GroupRecord, retries: Mapping[str, float], now: float) -> Job | None:
    """Return the job of a pod without a PodGroup if nothing keeps it from being decided: the usual case, made short."""
    (uid,) = record.members
    member = cluster.pods[uid]
    fact = member.fact
    if not member.waits or _own_obstacle(member) or retries.get(uid, 0.0) > now:
        return None
    if fact.queue in cluster.queues and _without_closed_queue(cluster, record, [member], Readiness()) != [member]:
        return None
    if queue_obstacle(cluster, fact.queue, "", fact.namespace):
        return None
    job = _job(cluster, record, Group(key=record.key, pods=(fact,)), [fact])
    return None if cluster.dispatcher.serves(job) else job


def _job(cluster: ClusterState, record: GroupRecord, group: Group, members: list[PodFact]) -> Job:
    """Return the group as a job: with the values of its PodGroup, else of its pods."""
    fact = record.fact
    return Job(
        queue=cluster.queue_of(members[0]),
        group=group,
        priority=max(pod.priority for pod in members) if fact is None else cluster.priority_classes.of(fact),
        created=min(pod.created for pod in members) if fact is None else fact.created,
        waiting_time=fact.waiting_time if fact is not None else None,
    )


def _terms(cluster: ClusterState, record: GroupRecord, first: PodFact) -> tuple[int, str]:
    """Return a group's minimum and why it cannot be decided, '' if it can.

    As in Volcano the minimum is 0 where nothing enforces gangs: a policy, or our extension.
    """
    if record.key == f"pod/{first.uid}":
        return 1, queue_obstacle(cluster, first.queue, f"Pod {first.ref}", first.namespace)
    fact = record.fact
    if fact is None:
        return 1, f"PodGroup {record.key} not found"
    if fact.problems:
        return fact.min_member, "; ".join(map(str, fact.problems))
    starts_whole = cluster.allocator.conf.extensions.gangs or any(
        policy.starts_whole for policy in cluster.accounts.policies.having("JobReady")
    )
    minimum = fact.min_member if starts_whole else 0
    return minimum, queue_obstacle(cluster, fact.queue, f"PodGroup {record.key}", first.namespace)


def _tasks(record: GroupRecord, members: list[PodRecord]) -> tuple[tuple[str, int], ...]:
    """Return how many more pods of each task the gang needs, at least.

    As in Volcano the tasks' minimums hold only where the gang's own does not undercut their sum (plugins/gang).
    """
    minimums = record.fact.min_task_member if record.fact is not None else {}
    if not minimums or record.fact is None or record.fact.min_member < sum(minimums.values()):
        return ()
    placed = Counter(member.fact.task for member in members if member.placed)
    return tuple((task, minimum - placed[task]) for task, minimum in sorted(minimums.items()) if minimum > placed[task])


def queue_obstacle(cluster: ClusterState, name: str, subject: str, namespace: str) -> str:
    """Return why a queue serves no pod of a namespace, '' if it does; ``subject`` is the object in the queue."""
    queue = cluster.queues.get(name)
    if queue is None:
        return "" if name == DEFAULT_QUEUE else f"{subject}: queue {name!r} does not exist"
    obstacle = cluster.accounts.obstacle(name)
    if obstacle:
        return f"{subject}: {obstacle}"
    if foreign := namespace_obstacle(cluster, name, namespace):
        return f"{subject}: {foreign}"
    if queue.open or not cluster.allocator.conf.extensions.queue_state:
        return ""
    return f"{subject}: {_closed(cluster, queue)}"


def namespace_obstacle(cluster: ClusterState, name: str, namespace: str) -> str:
    """Return why a namespace may not use a queue, '' if it may."""
    queue = cluster.queues.get(name)
    if queue is None:
        return ""
    fact = cluster.namespaces.get(namespace)
    if queue.serves(namespace, fact.labels if fact is not None else ()):
        return ""
    return f"namespace {namespace!r} may not use queue {name!r}, which serves these namespaces: {queue.served}"


def enqueue_obstacle(cluster: ClusterState, group: PodGroupFact) -> str:
    """Return why a queue does not admit a PodGroup, '' if it does.

    In Volcano a queue that is not open admits PodGroups without ``minResources``, and all where neither
    ``proportion`` nor ``capacity`` is configured.
    """
    subject = f"PodGroup {group.key}"
    queue = cluster.queues.get(group.queue)
    closed = "" if queue is None else _closed(cluster, queue)
    enqueues = "enqueue" in cluster.allocator.conf.actions and cluster.accounts.policies.bound_queues("JobEnqueued")
    if closed and group.min_resources is not None and enqueues:
        return f"{subject}: {closed}"
    return queue_obstacle(cluster, group.queue, subject, namespace_of(group))


def namespace_of(group: PodGroupFact) -> str:
    """Return the namespace of a PodGroup."""
    return group.key.partition("/")[0]


def _closed(cluster: ClusterState, queue: QueueFact) -> str:
    """Return why a queue serves no pod, by its state or the state of the hierarchy; '' if it does."""
    if queue.open:
        return cluster.accounts.unready
    state = f"it is {queue.state}" if queue.state else "its status has no state"
    return f"queue {queue.name!r} is not open: {state}"


def _without_closed_queue(
    cluster: ClusterState, record: GroupRecord, able: list[PodRecord], found: Readiness
) -> list[PodRecord]:
    """Return the pods that their queue serves: a queue that is not open serves only pods without requests.

    The others are added to the obstacles.

    Source: Volcano pkg/scheduler/plugins/{proportion,capacity} (AllocatableFn). With our extension the whole group has
    an obstacle instead.
    """
    conf = cluster.allocator.conf
    queue = cluster.queues.get(cluster.queue_of(able[0].fact))
    closed = (
        "" if queue is None or not cluster.accounts.policies.bound_queues("Allocatable") else _closed(cluster, queue)
    )
    if queue is None or not closed or (not queue.open and conf.extensions.queue_state):
        return able
    subject = f"Pod {able[0].fact.ref}" if record.fact is None else f"PodGroup {record.key}"
    obstacle = Obstacle(f"{subject}: {closed}")
    found.obstacles += [(each.fact, obstacle) for each in able if not each.fact.ask.best_effort]
    return [each for each in able if each.fact.ask.best_effort]


def _in_order(members: list[PodRecord], policies: list[QueuePolicy]) -> list[PodRecord]:
    """Return a group's pods in the order in which they are tried: by the policies, index, age and name.

    The index is the number at the end of a pod's name, so that tasks take turns: ps-0, worker-0, ps-1. It counts
    only where all names have one. Source: Volcano pkg/controllers/job/helpers (CompareTask).
    """
    indexes = {member.fact.uid: _index(member.fact.name) for member in members}
    indexed = all(index is not None for index in indexes.values())

    def place(member: PodRecord) -> OrderKey:
        fact = member.fact
        index = indexes[fact.uid] if indexed else None
        parts = [part for policy in policies for part in policy.pod_key(fact)]
        return (*parts, index or 0, fact.created, fact.name)

    return sorted(members, key=place)


def _index(name: str) -> int | None:
    parts = name.split("-")
    return int(parts[-1]) if len(parts) >= _INDEXED_PARTS and parts[-1].isdecimal() else None
