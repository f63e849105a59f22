"""``deviceshare explain pod NAME --preempt``: which pods would be evicted for a waiting pod now, or why none."""

from collections.abc import Iterable, Sequence
from typing import Any

from deviceshare.model import Now, PodFact
from deviceshare.preemption import PREEMPT, Preemption
from deviceshare.scheduler import PodRecord, Scheduler

from deviceshare_cli.errors import CommandError
from deviceshare_cli.output import NONE
from deviceshare_cli.pods import devices_of, shown_devices
from deviceshare_cli.reading.reader import Reader
from deviceshare_cli.reading.state import PLACEMENT_STREAMS, scheduler_of
from deviceshare_cli.reports import Report, table_lines


async def explain_preemption(reader: Reader, namespace: str, name: str) -> Report | None:
    """Return the answer for a pod and its group, None if placement does not know the pod.

    Raises CommandError, also for a pod that does not wait.
    """
    scheduler = scheduler_of(await reader.messages(PLACEMENT_STREAMS), reader.now)
    known = (each for each in scheduler.pods.values() if (each.fact.namespace, each.fact.name) == (namespace, name))
    record = max(known, key=lambda each: each.fact.created, default=None)
    return None if record is None else preemption_report(scheduler, record, Now(reader.now, reader.now))


def preemption_report(scheduler: Scheduler, record: PodRecord, now: Now) -> Report:
    """Return which pods would be evicted for a pod and its group; nothing is changed. Raises CommandError.

    The configured actions are tried, then ``preempt`` if it is not among them.
    """
    pod = record.fact
    if scheduler.is_nominated(pod.uid):
        return _nominated(scheduler, record)
    if not record.waits:
        where = f"on node {pod.node}" if pod.node else "terminating" if pod.terminating else "ended"
        where = "claimed and not bound yet" if record.claims and not pod.node else where
        raise CommandError(f"pod {pod.ref} does not wait: it is {where}")
    actions = scheduler.preemption_actions
    tried = actions if PREEMPT in actions else [*actions, PREEMPT]
    found = scheduler.preempt(pod.group, now, actions=tried)
    lines = [_answer(found)]
    if (found.action not in actions and found.action) or (not found.placed and tried != actions):
        lines.append(f"What if: the configuration does not have the action {PREEMPT}, so that no pod is evicted by it.")
    leaving = [each.fact for uid in found.leaving if (each := scheduler.pods.get(uid)) is not None]
    victims = [_victim(each.pod, each.queue) for each in found.victims]
    return _report(scheduler, record, lines, found, victims, leaving, configured=found.action in actions)


def _answer(found: Preemption) -> str:
    if found.taken:
        return "No other pod is evicted: it takes the room of nominated pods of lower priority."
    if found.victims:
        return f"By the action {found.action} {_sums([each.priority for each in found.victims])}."
    if found.leaving:
        return "No pod is evicted: it fits when pods are gone that are terminating."
    return "No pod is evicted: it fits now." if found.placed else f"No pod is evicted: {found}"


def _sums(priorities: Sequence[int]) -> str:
    pods = f"{len(priorities)} pods" if len(priorities) > 1 else "1 pod"
    sums = f"the sum of their priorities is {sum(priorities)}, the highest is {max(priorities)}"
    return f"{pods} would be evicted, {sums}"


def _nominated(scheduler: Scheduler, record: PodRecord) -> Report:
    """Return for which pods a pod waits already."""
    claim, node = record.claims[0]
    victims, action = [], ""
    for uid in scheduler.ledgers[node].claims[claim].waits_for:
        if (known := scheduler.pods.get(uid)) is None:
            continue
        victims.append(_victim(known.fact, scheduler.queue_of(known.fact)))
        if (ledger := scheduler.ledgers.get(known.fact.node)) and (eviction := ledger.evictions.get(uid)):
            action = eviction.action
    lines = [f"Nominated on node {node}: it waits for pods that are evicted for it and its group."]
    return _report(scheduler, record, lines, Preemption(action=action), victims, (), configured=True, nominated=node)


def _ref(scheduler: Scheduler, node: str, claim: str) -> str:
    """Return the namespace and name of a nominated pod."""
    known = scheduler.ledgers[node].claims[claim]
    return f"{known.namespace}/{known.name}"


def _victim(pod: PodFact, queue: str) -> dict[str, Any]:
    named = {"namespace": pod.namespace, "name": pod.name, "node": pod.node}
    return named | {"priority": pod.priority, "queue": queue}


def _report(
    scheduler: Scheduler,
    record: PodRecord,
    lines: Sequence[str],
    found: Preemption,
    victims: Sequence[dict[str, Any]],
    leaving: Iterable[PodFact],
    *,
    configured: bool,
    nominated: str = "",
) -> Report:
    pod, queue = record.fact, scheduler.queue_of(record.fact)
    group_priority = scheduler.job_priority_of(pod)
    head = ("NAMESPACE", "POD", "NODE", "PRIORITY", "QUEUE")
    placed: list[dict[str, Any]] = [
        {"namespace": each.namespace, "name": each.name, "node": place.node, "devices": devices_of(place.grants)}
        for each, place in found.placed
    ]
    shown = [(each["namespace"], each["name"], each["node"], shown_devices(each["devices"]) or NONE) for each in placed]
    ends = [each.ref for each in leaving]
    taken = sorted({_ref(scheduler, node, claim) for node, claim in found.taken})
    sections = (
        ("Evicted", table_lines((head, [[str(value) for value in each.values()] for each in victims]))),
        ("Takes the room of", taken),
        ("Waits for the end of", ends),
        ("Placed then" if victims or ends else "Placed", table_lines((("NAMESPACE", "POD", "NODE", "DEVICES"), shown))),
    )
    priorities = [each["priority"] for each in victims]
    data = {
        "namespace": pod.namespace,
        "name": pod.name,
        "priority": pod.priority,
        "group_priority": group_priority,
        "queue": queue,
        "nominated": nominated or None,
        "action": found.action or None,
        "configured": configured if victims else None,
        "victims": victims,
        "count": len(victims),
        "sum": sum(priorities),
        "highest": max(priorities, default=None),
        "taken": taken,
        "waits_for": ends,
        "placed": placed,
        "message": " ".join(lines),
        "reasons": [{"nodes": number, "reason": reason} for reason, number in found.reasons],
    }
    group = f", PodGroup {pod.podgroup} of priority {group_priority}" if pod.podgroup else ""
    first = f"Pod {pod.ref}, priority {pod.priority}{group}, queue {queue}"
    return Report([first, *lines], sections, data)
