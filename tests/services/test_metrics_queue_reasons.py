"""Why pods wait for their queue is shown with what the queue holds now, or with the time of the decision."""

import asyncio

import pytest
from deviceshare.model import Explanation, QueueFact
from deviceshare.queueing import Shortage
from deviceshare_bus.messages import subjects
from deviceshare_cli.tables import pods_table
from deviceshare_metrics.core.queue_reasons import with_queue_reasons
from deviceshare_metrics.queries import Queries
from msgspec.structs import replace
from support.metrics import read
from support.metrics_messages import claim, explanation, ledger, node, pod

CAPABILITY = 2000


def queue(weight=1):
    fact = QueueFact(name="q", weight=weight, capability={"cpu": CAPABILITY}, state="Open", open=True)
    return subjects.fact("queue", "q"), fact


def waits(name, used, at, gang="", bound="capability", **more):
    """Return the explanation of a pod that waited when its queue used so many millicores."""
    shortage = Shortage("q", bound, "cpu", CAPABILITY, used, 500, **more)
    message = f"{gang}: {shortage}" if gang else str(shortage)
    return subjects.explain(f"uid-{name}"), Explanation(
        uid=f"uid-{name}", namespace="default", name=name, at=at, decision="pending", message=message,
        refusals=(shortage.refusal,), gang=gang, queue="q",
    )  # fmt: skip


def cluster(*explanations, running=4):
    """Return a cluster whose queue holds 500m for each running pod, of 2000m; a, b and c wait."""
    placed = [f"r{number}" for number in range(running)]
    return read(
        node(allocatable={"cpu": 64_000}), queue(), *(pod(name, queue="q") for name in (*placed, "a", "b", "c")),
        ledger(*(claim(name) for name in placed)), *explanations,
    )  # fmt: skip


def shown(core, kind="pods"):
    return asyncio.run(Queries(core).items(kind))


def explained(core, name):
    return asyncio.run(Queries(core).explain("default", name))


def test_all_pods_of_a_queue_show_the_amount_that_the_queue_holds():
    core = cluster(waits("a", 1600, 10.0), waits("b", 1700, 20.0), waits("c", 1900, 30.0, gang="gang g"))
    (account,) = [each for each in shown(core, "queues") if each.name == "q"]
    current = f"queue 'q' has a capability of 2 of cpu, {account.used['cpu'] // 1000} used, 500m asked"
    reasons = {each.name: (each.reason, each.reason_at) for each in shown(core) if each.state == "Pending"}
    assert reasons == {"a": (current, 0.0), "b": (current, 0.0), "c": (f"gang g: {current}", 0.0)}
    answer = explained(core, "a")
    assert (answer.pod.reason, answer.explanation.message) == (current, current)
    assert (answer.explanation.refusals[0].free, answer.explanation.refusals[0].asked) == (0, 500)
    assert answer.explanation.at > 1e9, "now"
    assert {(each.reason, each.reason_at) for each in shown(core, "waiting")} == {
        (current, 0.0), (f"gang g: {current}", 0.0),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (explanation("a"), "nodes are not compared again"),
        (waits("a", 1700, 5.0, promised=True), "what was promised to groups is not known here"),
    ],
)
def test_other_reasons_have_the_time_of_the_decision(given, why):
    core = cluster(given)
    (found,) = [each for each in shown(core) if each.name == "a"]
    assert (found.reason, found.reason_at) == (given[1].message, 5.0), why
    (group,) = [each for each in shown(core, "waiting") if each.reason == found.reason]
    assert group.reason_at == 5.0
    answer = explained(core, "a")
    assert (answer.pod.reason_at, answer.explanation.at) == (5.0, 5.0)
    _, rows = pods_table([found], False, 5.0 + 31 * 60)
    assert rows[0][-1] == f"{found.reason} (as of 31m ago)"


def without_used(subject, explanation):
    """Return an explanation as a placement service of an earlier version sent it."""
    (refusal,) = explanation.refusals
    return subject, replace(explanation, refusals=(replace(refusal, used=None),))


def test_what_a_limit_is_of_does_not_depend_on_the_text():
    subject, queue_full = waits("a", 1600, 5.0)
    core = cluster(
        (subject, replace(queue_full, message="another text")),
        waits("b", 1700, 6.0, gang="gang 1 used, 2 asked", promised=True),
        without_used(*waits("c", 1900, 7.0)),
    )
    times = {each.name: each.reason_at for each in shown(core) if each.state == "Pending"}
    assert times == {"a": 0.0, "b": 6.0, "c": 7.0}


def test_the_pods_are_computed_once_per_state(monkeypatch):
    computed = []

    def counted(store, pods, accounts):
        computed.append(store.version)
        return with_queue_reasons(store, pods, accounts)

    monkeypatch.setattr("deviceshare_metrics.queries.with_queue_reasons", counted)
    core = cluster(waits("a", 1600, 5.0))
    queries = Queries(core)

    async def read_all():
        await asyncio.gather(*(queries.items(kind) for kind in ("pods", "waiting", "pods")))
        read(waits("b", 1700, 6.0), into=core)
        return await queries.items("pods")

    reasons = [each.reason for each in asyncio.run(read_all()) if each.name in ("a", "b")]
    assert len(computed) == len(set(computed)) == 2
    assert len(set(reasons)) == 1


def test_a_queue_that_has_room_now_shows_the_last_decision_with_its_time():
    core = cluster(waits("a", 1700, 5.0), running=1)
    (found,) = [each for each in shown(core) if each.name == "a"]
    assert "1700m used" in found.reason
    assert found.reason_at == 5.0
    assert explained(core, "a").explanation.at == 5.0


def test_groups_of_waiting_pods_have_the_oldest_time():
    core = cluster(explanation("a"), explanation("b"))
    newer = explanation("b")
    core = read(
        (newer[0], Explanation(**{f: getattr(newer[1], f) for f in newer[1].__struct_fields__} | {"at": 9.0})),
        into=core,
    )
    assert {each.reason_at for each in shown(core, "waiting") if each.reason} == {5.0}


def test_a_pod_that_is_deleted_before_it_has_a_place_is_not_counted_as_waiting():
    core = cluster()
    (before,) = [each.pods for each in shown(core, "queues") if each.name == "q"]
    read(pod("a", queue="q", terminating=True), into=core)
    (after,) = [each.pods for each in shown(core, "queues") if each.name == "q"]
    assert before["Pending"] - after["Pending"] == 1
    assert {each.name: each.status for each in shown(core) if each.state == "Pending"}["a"] == "Terminating"
