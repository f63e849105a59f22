"""Bugs that are put into the product on purpose, each with the histories in which the simulation has to find it.

``PYTHONPATH=tests .venv/bin/python -m support.seeded_bugs`` looks for all of them, and prints how long it took.
"""

import asyncio
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager
from itertools import count, islice
from typing import NamedTuple
from unittest.mock import patch

from deviceshare.objects import held, unserved
from deviceshare.preemption import Preemptor, rules
from deviceshare.preemption.budgets import Budgets
from deviceshare.preemption.candidate_table import CandidateTable
from deviceshare.preemption.gangs import Gang
from deviceshare.preemption.search import Search as VictimSearch
from deviceshare.scheduler import Scheduler
from deviceshare_binder.core.evictions import EvictionTasks
from deviceshare_binder.core.outcomes import NodeClaims
from deviceshare_bus.cores.conditional_writer import ConditionalWriter
from deviceshare_bus.streams.follower import Follower
from deviceshare_bus.streams.publisher import Publisher, PublishError, Unknown
from deviceshare_cluster.eviction import EvictAnswer, EvictState
from deviceshare_cluster.kube import KubeCluster
from deviceshare_inventory.core.fact_builder import FactBuilder
from deviceshare_lab.chaos.scenario import Scenario, Step
from deviceshare_lab.chaos.simulation import draw, play
from deviceshare_lab.checker import Violation
from deviceshare_lab.world.kube_client import SimulatedKubeClient
from deviceshare_lab.world.link import resolve
from deviceshare_placement.core import ledger_writes, nominations
from deviceshare_placement.core.ledgers import Ledgers
from msgspec.structs import replace


def skip_expected_sequence():
    original = ConditionalWriter.write

    def write(self, messages, context, **more):
        made = original(self, messages, context, **more)
        return replace(made, writes=tuple(replace(each, expected=None) for each in made.writes))

    return patch.object(ConditionalWriter, "write", write)


def reuse_an_id():
    numbers, original = count(), Scheduler.new_claim

    def new_claim(self, claim_id, *arguments):
        return original(self, f"claim-{next(numbers) % 3}", *arguments)

    return patch.object(Scheduler, "new_claim", new_claim)


def forget_a_release():
    return patch.object(Ledgers, "remove", lambda self, uid: None)


def split_a_gang():
    original = ledger_writes.select
    return patch.object(ledger_writes, "select", lambda decided: original(decided)._replace(together=set()))


def bind_twice_on_redelivery():
    return patch.object(NodeClaims, "has_outcome", lambda self, claim: False)


def accept_an_unsigned_annotation():
    return patch.object(held, "signed", lambda keys, uid, node, annotations: dict(annotations))


def late_binding():
    original = SimulatedKubeClient.request

    async def request(self, method, path, query=(), body=None, *more, **named):
        if path.endswith("/binding"):
            metadata = {name: value for name, value in body["metadata"].items() if name != "resourceVersion"}
            body = {**body, "metadata": metadata}
        return await original(self, method, path, query, body, *more, **named)

    return patch.object(SimulatedKubeClient, "request", request)


def ignore_roll_back():
    async def find_loss(self, state):
        self._received.sequence = min(self._received.sequence, state.last)
        return ""

    return patch.multiple(Follower, _find_loss=find_loss, _lacks=lambda self, state, subjects: False)


def retry_without_read_back():
    original = Publisher._enqueue

    async def enqueue(self, messages, guard=None):
        first = await original(self, messages, guard)
        answer = asyncio.get_running_loop().create_future()
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())

        async def again():
            result, error = None, None
            try:
                result = await first
            except Unknown:
                anyhow = [each._replace(write=each.write._replace(expected=None)) for each in messages]
                try:
                    result = await (await original(self, anyhow, guard))
                except PublishError as failed:
                    error = failed
            except PublishError as failed:
                error = failed
            resolve(answer, result, error)

        tasks.append(asyncio.create_task(again()))
        return answer

    tasks = []
    return patch.object(Publisher, "_enqueue", enqueue)


def forget_a_tombstone():
    return patch.object(FactBuilder, "_delete_pod", lambda self, uid, ref, revision: None)


def trust_the_mark_of_a_plugin():
    return patch.object(unserved, "is_admitted", lambda status: True)


def open_before_others_have_gone():
    original = nominations.Nominations.state

    def state(self, nomination, now):
        found = original(self, nomination, now)
        return nominations.OPEN if found == nominations.WAITING else found

    return patch.object(nominations.Nominations, "state", state)


def let_go_before_all_may():
    original = nominations.Nominations.state

    def state(self, nomination, now):
        found = original(self, nomination, now)
        lets_go = found == nominations.WAITING and not all(each.go for each, _ in nomination.evictions.values())
        return nominations.FREE if lets_go else found

    return patch.object(nominations.Nominations, "state", state)


def let_go_what_is_blocked():
    original = nominations.Nominations.state

    def state(self, nomination, now):
        found = original(self, nomination, now)
        lets_go = found == nominations.LATE and not all(each.go for each, _ in nomination.evictions.values())
        return nominations.FREE if lets_go else found

    return patch.object(nominations.Nominations, "state", state)


def charge_nominated_pods_nothing():
    return patch("deviceshare.allocation.node_charges.nominated_room", lambda holdings, cards, counted: None)


def evict_instead_of_asking():
    original = EvictionTasks._next

    def next_request(self, task, now):
        request = original(self, task, now)
        return None if request is None else replace(request, dry_run=False)

    return patch.object(EvictionTasks, "_next", next_request)


def keep_evictions_without_their_claims():
    original = nominations.Nominations._change

    def change(self, nomination, state):
        changes = original(self, nomination, state)
        for each in changes.values():
            each.dropped.clear()
        return changes

    return patch.multiple(nominations.Nominations, _change=change, _note_alone=lambda self, nominations, now: None)


def never_withdraw():
    original = nominations.Nominations.state

    def state(self, nomination, now):
        found = original(self, nomination, now)
        return nominations.WAITING if found in (nominations.BROKEN, nominations.LATE) else found

    return patch.object(nominations.Nominations, "state", state)


def count_terminating_pods_as_gone():
    """As Volcano, which gives the card of such a pod away."""
    original = nominations.Nominations._stays

    def stays(self, uid):
        pod = original(self, uid)
        return None if pod is not None and pod.fact.terminating else pod

    return patch.object(nominations.Nominations, "_stays", stays)


@contextmanager
def ignore_budgets():
    """As Volcano: pods are deleted, not evicted."""

    async def evict(self, namespace, name, uid, *, dry_run=False, grace=None):
        if dry_run:
            return EvictAnswer(EvictState.MAY_GO)
        metadata = {"uid": uid, "deletionTimestamp": "2026-01-01T00:00:00Z"}
        await self._api.request("PATCH", f"/api/v1/namespaces/{namespace}/pods/{name}", body={"metadata": metadata})
        return EvictAnswer(EvictState.DONE)

    with (
        patch.multiple(Budgets, protecting=lambda self, uid: "", allow=lambda self, uids: True),
        patch.object(KubeCluster, "evict", evict),
    ):
        yield


def let_pods_of_the_same_priority_go():
    original = Preemptor

    def preemptor(group, queue, priority):
        return original(group=group, queue=queue, priority=priority + 1)

    return patch("deviceshare.scheduler.preempting.Preemptor", preemptor)


@contextmanager
def let_pods_of_other_queues_go():
    def concerned(self, preemptor, *, preempts, by_priority):
        found = self._job_priority < preemptor.priority
        found[len(self._candidates) :] = False
        return found

    with (
        patch.multiple(CandidateTable, has_any=lambda self, preemptor, **how: True, concerned=concerned),
        patch.object(rules.Rules, "concerns", lambda self, preemptor, candidate: True),
    ):
        yield


def break_gangs():
    return patch.object(Gang, "with_all_that_go", lambda self, gone: gone)


def let_all_pods_of_a_node_go():
    """As Volcano, which takes back no pod that it did not need."""
    original = VictimSearch.run

    def run(self):
        with self._room.node_by_node() as missing:
            for at in range(len(self._places) if missing == 1 else 0):
                node, pods = self._place(at)
                if self._room.gain(node, pods.all) and self._confirm(pods.all):
                    return self._best
        return original(self)

    return patch.object(VictimSearch, "run", run)


@contextmanager
def bind_before_others_have_gone():
    with (
        patch("deviceshare_binder.core.outcomes.is_nominated", lambda claim: False),
        patch("deviceshare_binder.core.claims.is_nominated", lambda claim: False),
    ):
        yield


def requests_of_a_lost_node(seed):
    """Return a history in which a node vanishes while the request to bind a pod there is under way."""
    steps = (
        Step(2.0, "+late-api-requests", (0.6,)),
        *(Step(2.1, "pod", (f"pod-{number}", "mps", 0, "default", 0.0)) for number in range(3)),
        Step(2.6, "remove-node", ("node-0",)),
        Step(2.7, "-late-api-requests", (0.6,)),
    )
    replicas = {"inventory": 1, "placement": 1, "binder": 1, "metrics": 1}
    return Scenario(seed, {"node-0": "mps", "node-1": "gpu-number"}, replicas, steps)


def drawn(faults, replicas):
    """Return a function that draws the history of a seed with these faults."""
    return lambda seed: draw(seed, replicas, faults)


def preempting(faults, replicas, of=None):
    """Return a function that draws the history of a seed in which pods go for others.

    ``of``: says of a step whether the bug is about it; of some histories that with the most such steps is taken.
    """

    def drawn_for(seed):
        numbers = (draw(f"{seed}.{number}", replicas, faults) for number in count())
        preempt = (scenario for scenario in numbers if scenario.preempts)
        return next(preempt) if of is None else max(islice(preempt, 10), key=lambda each: sum(map(of, each.steps)))

    return drawn_for


def is_gang(step):
    return step.action == "gang"


def is_guarded(step):
    """Return whether a step creates pods that a PodDisruptionBudget counts."""
    return step.action in ("pod", "gang") and bool(step.arguments[-2])


BUGS = {
    skip_expected_sequence: drawn(("cut", "lost-deliveries", "silent-consumers"), {"placement": 3}),
    reuse_an_id: drawn((), {}),
    forget_a_release: drawn((), {}),
    split_a_gang: drawn((), {}),
    bind_twice_on_redelivery: drawn(("kill", "silent-consumers"), {"binder": 1}),
    accept_an_unsigned_annotation: drawn(("forged-annotations",), {}),
    late_binding: requests_of_a_lost_node,
    ignore_roll_back: drawn(("roll-back",), {}),
    retry_without_read_back: drawn(("lost-acks", "late-acks"), {"placement": 3}),
    forget_a_tombstone: drawn((), {}),
    trust_the_mark_of_a_plugin: drawn(("ending-kubelets",), {}),
    open_before_others_have_gone: preempting((), {}),
    let_go_before_all_may: preempting((), {}),
    let_go_what_is_blocked: preempting(("forbidden",), {}),
    charge_nominated_pods_nothing: preempting((), {"placement": 1}),
    evict_instead_of_asking: preempting((), {}),
    keep_evictions_without_their_claims: preempting((), {}),
    never_withdraw: preempting((), {}),
    count_terminating_pods_as_gone: preempting((), {}),
    ignore_budgets: preempting((), {}, is_guarded),
    let_pods_of_the_same_priority_go: preempting((), {}),
    let_pods_of_other_queues_go: preempting((), {}),
    break_gangs: preempting((), {}, is_gang),
    let_all_pods_of_a_node_go: preempting((), {}),
    bind_before_others_have_gone: preempting((), {}),
}


class Search(NamedTuple):
    """How a bug was looked for: ``violation`` is None if it was not found."""

    histories: int
    seconds: float
    violation: Violation | None


def find(bug: Callable, seconds: float) -> Search:
    """Play histories with a bug until a rule is broken, for so many seconds of CPU."""
    began, number = time.process_time(), 0
    with bug():
        while True:
            played = play(BUGS[bug](f"{bug.__name__}.{number}"))
            number += 1
            spent = time.process_time() - began
            # A bug that fits the product no more fails in the service: it would count as found in each history.
            assert played.violation is None or played.violation.rule != "no service fails", played.violation
            if played.violation is not None or spent >= seconds:
                return Search(number, spent, played.violation)


def main(names: list[str]) -> int:
    """Look for the named bugs, by default all, and print a table; return 1 if one was not found in five minutes."""
    missed = 0
    for bug in BUGS:
        if names and bug.__name__ not in names:
            continue
        found = find(bug, 300.0)
        rule = found.violation.rule if found.violation is not None else "not found"
        sys.stdout.write(f"| `{bug.__name__}` | {found.histories} | {found.seconds:.1f} s | {rule} |\n")
        sys.stdout.flush()
        missed += found.violation is None
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
