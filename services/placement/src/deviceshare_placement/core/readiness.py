"""Whether a group can be decided now, and what it waits for where it cannot."""

from collections import Counter
from collections.abc import Mapping

import msgspec
from deviceshare.facts import PodFact
from deviceshare.gangs import Group
from deviceshare.ordering.jobs import Job

from deviceshare_placement.core import telling
from deviceshare_placement.core.records import GroupRecord, PodRecord
from deviceshare_placement.core.telling import Obstacle
from deviceshare_placement.core.world import World

_GIVES_BACK = "other pods of its gang give back their places first, since the gang lost a node"


class Readiness(msgspec.Struct):
    """``job`` to be decided, or None.

    ``obstacles`` are the pods that cannot be, with the reason.
    """

    job: Job | None = None
    obstacles: list[tuple[PodFact, Obstacle]] = []


def readiness(world: World, record: GroupRecord, retries: Mapping[str, float], now: float) -> Readiness:
    """Look at a group's members: which wait, which are held back, whether there are enough.

    ``retries`` says for pods whose claim was refused when they may be decided again.
    """
    members = [world.pods[uid] for uid in sorted(record.members)]
    waiting = [member for member in members if member.waits]
    found = Readiness()
    if not waiting:
        return found
    able = []
    gated = 0
    for member in waiting:
        fact = member.fact
        if fact.gates:
            gated += 1
            found.obstacles.append((fact, Obstacle(f"waits for scheduling gates: {', '.join(fact.gates)}")))
        elif fact.problems:
            found.obstacles.append((fact, Obstacle("; ".join(map(str, fact.problems)))))
        else:
            able.append(member)
    if not able:
        return found
    if any(world.gives_back(member) and not member.fact.node for member in members):
        # A gang that lost a node is decided as a whole, when all of it is back.
        found.obstacles += [(member.fact, Obstacle(_GIVES_BACK)) for member in able]
        return found
    if any(retries.get(member.fact.uid, 0.0) > now for member in able):
        found.obstacles += [
            (member.fact, Obstacle(f"binding was refused: {member.refusal}; it will be tried again"))
            for member in able
            if member.refusal
        ]
        return found
    minimum, text = _terms(world, record, members[0].fact)
    obstacle = Obstacle(text) if text else None
    able.sort(key=_order)
    if world.allocator.conf.does("priority", "TaskOrder"):
        able.sort(key=lambda member: -member.fact.priority)
    group = Group(
        key=record.key,
        pods=tuple(member.fact for member in able),
        minimum=minimum,
        placed=sum(1 for member in members if member.placed),
        tasks=_tasks(record, members),
    )
    if obstacle is None and (group.missing > len(group.pods) or group.short(Counter(pod.task for pod in group.pods))):
        obstacle = telling.members_missing(group, len(members), gated)
    job = _job(world, record, group, [member.fact for member in members])
    if obstacle is None and (action := world.dispatcher.serves(job)):
        obstacle = Obstacle(f"the action {action!r} is not configured, which serves such pods")
    if obstacle is not None:
        found.obstacles += [(pod, obstacle) for pod in group.pods]
    else:
        found.job = job
    return found


def _job(world: World, record: GroupRecord, group: Group, members: list[PodFact]) -> Job:
    """Return the group as it stands in line: by its PodGroup's word, else by its pods'."""
    fact = record.fact
    priority = fact.priority if fact is not None else None
    return Job(
        queue=world.queue_of(members[0]),
        group=group,
        priority=max(pod.priority for pod in members) if priority is None else priority,
        created=min(pod.created for pod in members) if fact is None else fact.created,
        waiting_time=fact.waiting_time if fact is not None else None,
    )


def _terms(world: World, record: GroupRecord, first: PodFact) -> tuple[int, str]:
    """Return a group's minimum and what keeps it from being decided at all."""
    if record.key == f"pod/{first.uid}":
        return 1, queue_obstacle(world, first.queue, f"Pod {first.ref}")
    fact = record.fact
    if fact is None:
        return 1, f"PodGroup {record.key} not found"
    if fact.problems:
        return fact.min_member, "; ".join(map(str, fact.problems))
    return fact.min_member, queue_obstacle(world, fact.queue, f"PodGroup {record.key}")


def _tasks(record: GroupRecord, members: list[PodRecord]) -> tuple[tuple[str, int], ...]:
    """Return how many more pods of each task the gang needs, at least.

    As in Volcano the tasks' minimums hold only where the gang's own does not undercut their sum (plugins/gang).
    """
    minimums = record.fact.min_task_member if record.fact is not None else {}
    if not minimums or record.fact is None or record.fact.min_member < sum(minimums.values()):
        return ()
    placed = Counter(member.fact.task for member in members if member.placed)
    return tuple((task, minimum - placed[task]) for task, minimum in sorted(minimums.items()) if minimum > placed[task])


def queue_obstacle(world: World, name: str, subject: str) -> str:
    """Return why nobody gets anything in a queue, '' where it is open; ``subject`` is who is in it."""
    queue = world.queues.get(name)
    if queue is None:
        # The default queue need not be there.
        return "" if name == "default" else f"{subject}: queue {name!r} does not exist"
    state = f": it is {queue.state}" if queue.state else ""
    return "" if queue.open else f"{subject}: queue {name!r} is not open{state}"


def _order(member: PodRecord) -> tuple[str, float, int, str]:
    """By task, age, and name, where worker-2 comes before worker-10."""
    fact = member.fact
    return fact.task, fact.created, len(fact.name), fact.name
