"""The lists of the dashboard: queues, events and waiting pods. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from deviceshare.queueing import Queues
from deviceshare_bus.messages.codec import Step
from deviceshare_bus.messages.subjects import fact

from deviceshare_metrics import api
from deviceshare_metrics.api_dashboard import PodEvent, Queue, WaitingPods
from deviceshare_metrics.core import Snapshot, StateStore

MAX_NAMES = 20
"""Names of pods in one group of waiting pods."""


def queues(accounts: Queues, snapshot: Snapshot, store: StateStore) -> list[Queue]:
    """Return the queues with their accounts."""
    pods: dict[str, Counter[api.PodState]] = defaultdict(Counter)
    for pod in snapshot.pods:
        # A pod that is deleted before it has a place waits for none.
        pods[pod.queue][pod.state] += not (pod.terminating and pod.state in api.WAITING)
    facts = {queue.name: queue for queue in store.queues.values()}
    found = []
    for name in sorted(accounts.names):
        account = accounts.account(name)
        fact_of = facts.get(name, account.fact)
        found.append(
            Queue(
                name=name,
                parent=fact_of.parent,
                weight=fact_of.weight,
                open=fact_of.open,
                used={key: amount for key, amount in sorted(account.used.items()) if amount},
                requested={key: amount for key, amount in sorted(account.requested.items()) if amount},
                deserved={key: round(amount, 3) for key, amount in sorted(account.deserved.items())},
                capability=dict(sorted(fact_of.capability.items())),
                pods=dict(sorted(pods[name].items())),
                problems=tuple(map(str, fact_of.problems)),
                bounds=dict(sorted(account.bound.items())),
                obstacle=accounts.unready or accounts.obstacle(name) or "",
            )
        )
    return found


def events(steps: Iterable[tuple[int, str, Step]], store: StateStore) -> Iterator[PodEvent]:
    """Yield steps as events; the queue is that of the existing pod."""
    groups = {group.key: group.queue for group in store.groups.values()}
    for number, service, step in steps:
        namespace, _, name = step.pod.partition("/")
        pod = store.pods.get(fact("pod", step.uid))
        queue = "" if pod is None else groups.get(pod.group, "") or pod.queue or "default"
        yield PodEvent(
            number=number, time=step.at, service=service, step=step.name, namespace=namespace, name=name, uid=step.uid,
            node=step.node, queue=queue, message=step.message,
        )  # fmt: skip


def waiting(pods: Iterable[api.Pod], store: StateStore) -> list[WaitingPods]:
    """Return those of these pods that wait, by job and reason, the largest group first."""
    groups: dict[tuple[str, str, str, api.PodState, str, str], list[api.Pod]] = defaultdict(list)
    for pod in pods:
        if pod.state in api.WAITING:
            group = "" if pod.group.startswith("pod/") else pod.group
            groups[pod.namespace, group, pod.queue, pod.state, pod.reason or "", pod.fragmented].append(pod)
    found = []
    for (namespace, group, queue, state, reason, fragmented), members in groups.items():
        created = [seen.created for pod in members if (seen := store.pods.get(fact("pod", pod.uid))) is not None]
        found.append(
            WaitingPods(
                namespace=namespace, group=group, queue=queue, state=state, reason=reason, pods=len(members),
                first=tuple(pod.name for pod in members[:MAX_NAMES]), since=min(filter(None, created), default=0.0),
                reason_at=min((pod.reason_at for pod in members if pod.reason_at), default=0.0),
                fragmented=fragmented,
            )
        )  # fmt: skip
    return sorted(found, key=lambda each: (-each.pods, each.queue, each.namespace, each.group, each.reason))
