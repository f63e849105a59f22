"""Node locks, and pods that wait until served ones run."""

import msgspec
import pytest
from deviceshare.conf import SCHEDULER
from deviceshare.model import ConfigFact
from deviceshare_binder.core import PATIENCE
from deviceshare_binder.core.commands import Annotate, BindPod, LockNode
from deviceshare_binder.core.events import ClusterFailed, SchedulerConfigured
from deviceshare_binder.core.locks import LINGER
from deviceshare_binder.core.views import NodeView
from deviceshare_bus.cores.core import Log
from deviceshare_cluster.interface import BindState
from support.handoff import AT, HAMI, NOW, SEVERAL, VNPU, VNPUS, Cluster, claim, memory, pod, vgpus


def test_the_plugin_that_serves_the_pod_that_the_lock_names_finds_it_locked():
    cluster = Cluster(VNPU, VNPU)
    (lock,) = cluster.core.take(NOW)
    assert lock == LockNode("claim-p0", "n1", HAMI, f"{AT},default,p0", None)
    cluster.core.lock_answered("claim-p0", lock.value, NOW)
    assert cluster.begun() == ["p0"]
    cluster.core.bind_answered("claim-p0", BindState.BOUND, "n1", "", NOW)
    cluster.core.node("n1", NodeView(name="n1", locks=((HAMI, lock.value),)))
    cluster.fact("p0", "vNPUs")
    assert not [one for one in cluster.core.take(NOW) if isinstance(one, LockNode | BindPod)]
    cluster.fact("p0")
    assert not [one for one in cluster.core.take(NOW) if isinstance(one, LockNode)], "the plugin has not released it"
    cluster.core.node("n1", NodeView(name="n1"))
    (second,) = [one for one in cluster.core.take(NOW) if isinstance(one, LockNode)]
    assert (second.claim, second.expected) == ("claim-p1", None)


NODE_LOCKS = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: deviceshare
    arguments:
      deviceshare.NodeLockEnable: true
"""


def release(node, annotation, value):
    return {"kind": "Node", "name": node, "annotations": {annotation: None}, "expected": {annotation: value}}


def content(command):
    return {key: value for key, value in msgspec.structs.asdict(command).items() if value and key != "token"}


def locking(cluster, now=NOW):
    return [one.claim for one in cluster.core.take(now) if isinstance(one, LockNode)]


def test_a_pod_with_vnpus_in_several_containers_waits_until_those_that_are_served_run():
    for grants, waits in ((VNPU, False), (VNPUS, True)):
        cluster = Cluster(grants, VNPU)
        cluster.grants["served"] = VNPU
        cluster.fact("served", until_running=[SEVERAL])
        assert locking(cluster) == ([] if waits else ["claim-p0"])
        cluster.fact("served", until_running=[])
        assert locking(cluster) == (["claim-p0"] if waits else [])


def test_a_pod_that_is_served_and_does_not_run_is_waited_for_a_minute():
    cluster = Cluster(VNPUS)
    cluster.grants["served"] = VNPU
    cluster.fact("served", until_running=[SEVERAL])
    assert locking(cluster) == []
    assert cluster.core.next_due() == NOW + PATIENCE
    cluster.fact("served", until_running=[SEVERAL])
    assert locking(cluster, NOW + PATIENCE - 1) == []
    assert locking(cluster, NOW + PATIENCE) == ["claim-p0"]
    assert cluster.core.detail["stuck"] == 0
    cluster.core.now = NOW + PATIENCE + 1
    cluster.fact("served", until_running=[SEVERAL])
    assert cluster.core.next_due() == NOW + 2 * PATIENCE, "of the pod with the lock"
    cluster.core.take(NOW + 2 * PATIENCE)
    assert cluster.core.next_due() is None, "once"


def test_a_pod_that_is_served_late_is_waited_for_a_minute_from_then_on():
    cluster = Cluster(VNPUS)
    cluster.grants["served"] = VNPU
    cluster.core.pod("served", pod("served", VNPU, "n1", unserved=[("hami-vnpu", SEVERAL)]))
    assert locking(cluster) == []
    late = cluster.core.now = NOW + PATIENCE - 1
    cluster.fact("served", until_running=[SEVERAL])
    assert locking(cluster, late) == []
    assert locking(cluster, NOW + PATIENCE) == [], "that is the end of another wait"
    assert locking(cluster, late + PATIENCE) == ["claim-p0"]


def test_a_claim_waits_for_a_lock_that_the_plugin_does_not_release_until_the_binder_releases_it():
    cluster = Cluster(VNPU, VNPU)
    (lock,) = cluster.core.take(NOW)
    cluster.core.lock_answered("claim-p0", lock.value, NOW)
    cluster.core.node("n1", NodeView(name="n1", locks=((HAMI, lock.value),)))
    cluster.begun()
    cluster.core.bind_answered("claim-p0", BindState.BOUND, "n1", "", NOW)
    cluster.fact("p0")
    cluster.core.take(NOW)
    steps = cluster.core.take(NOW + LINGER)
    assert release("n1", HAMI, lock.value) in [content(one) for one in steps]
    cluster.core.node("n1", NodeView(name="n1"))
    assert [one.claim for one in cluster.core.take(NOW + LINGER) if isinstance(one, LockNode)] == ["claim-p1"]


def test_a_lock_that_the_plugin_does_not_give_back_is_given_back():
    cluster = Cluster(VNPU)
    (lock,) = cluster.core.take(NOW)
    cluster.core.lock_answered("claim-p0", lock.value, NOW)
    cluster.core.node("n1", NodeView(name="n1", locks=((HAMI, lock.value),)))
    cluster.begun()
    cluster.core.bind_answered("claim-p0", BindState.REFUSED, "", "no", NOW)
    cluster.core.take(NOW)
    cluster.core.read_answered("claim-p0", "", NOW)
    assert not [one for one in cluster.core.take(NOW) if isinstance(one, Annotate)]
    due = cluster.core.next_due()
    assert [content(one) for one in cluster.core.take(due) if isinstance(one, Annotate)] == [
        release("n1", HAMI, lock.value)
    ]
    assert cluster.core.next_due() is None


def test_a_lock_that_another_scheduler_took_first_is_requested_again():
    cluster = Cluster(VNPU)
    cluster.core.take(NOW)
    cluster.core.lock_answered("claim-p0", f"{AT},default,theirs", NOW)
    assert cluster.core.take(NOW) == []
    (again,) = cluster.core.take(cluster.core.next_due())
    assert isinstance(again, LockNode)


@pytest.mark.parametrize(
    ("grants", "annotation", "value"),
    [
        (vgpus(1), "hamivgpu", AT),
        (vgpus(1), "volcano.sh/mutex.lock", AT),
        (memory(10), "gpu", AT),
        (VNPU, HAMI, AT),
    ],
)
def test_a_lock_of_another_scheduler_is_waited_for_until_it_is_five_minutes_old(grants, annotation, value):
    cluster = Cluster(grants, locks=[(annotation, value)])
    assert cluster.core.take(NOW + 299) == []
    assert cluster.core.next_due() == NOW + 300
    (step,) = cluster.core.take(NOW + 300)
    assert isinstance(step, LockNode if grants is VNPU else BindPod)


def test_a_lock_whose_pod_does_not_exist_is_waited_for_for_ten_seconds():
    cluster = Cluster(VNPU, locks=[(HAMI, f"{AT},default,unknown")])
    assert cluster.core.take(NOW) == []
    assert cluster.core.next_due() == NOW + 10
    assert cluster.core.take(NOW + 9) == []
    (lock,) = cluster.core.take(NOW + 10)
    assert isinstance(lock, LockNode)
    assert lock.expected == f"{AT},default,unknown"


def test_a_lock_that_is_given_back_is_waited_for_no_longer():
    cluster = Cluster(vgpus(1), locks=[("hamivgpu", AT)])
    assert cluster.begun() == []
    cluster.core.node("n1", NodeView(name="n1"))
    assert cluster.begun() == ["p0"]


def test_a_lock_that_a_predecessor_took_for_the_claim_is_its_own():
    assert Cluster(VNPU, locks=[(HAMI, f"{AT},default,p0")]).begun() == ["p0"]


def test_a_lock_that_names_a_pod_which_needs_it_no_more_is_taken_over():
    cluster = Cluster(VNPU, locks=[(HAMI, f"{AT},default,served")])
    cluster.grants["served"] = VNPU
    cluster.fact("served")
    (lock,) = cluster.core.take(NOW)
    assert lock.expected == f"{AT},default,served"


def test_with_node_locks_every_family_that_has_one_locks():
    cluster = Cluster(vgpus(1), vgpus(2))
    cluster.core.handle(SchedulerConfigured(ConfigFact(name=SCHEDULER, text=NODE_LOCKS, source="test")))
    first, second = cluster.core.take(NOW)
    assert (first.annotation, first.value, first.expected) == ("hamivgpu", AT, None)
    cluster.core.lock_answered("claim-p0", AT, NOW)
    cluster.core.lock_answered("claim-p1", "2023-11-14T22:13:19Z", NOW)
    assert second.claim == "claim-p1"
    assert cluster.begun() == ["p0"]


def test_a_configuration_that_cannot_be_used_is_logged_and_the_previous_one_stays_in_effect():
    cluster = Cluster(vgpus(1))
    for text in (NODE_LOCKS, NODE_LOCKS.replace("true", "perhaps")):
        cluster.core.handle(SchedulerConfigured(ConfigFact(name=SCHEDULER, text=text, source="test")))
    (problem,) = [one for one in cluster.core.notes if isinstance(one, Log)]
    assert problem.level == "warning"
    assert "perhaps" in problem.message
    assert locking(cluster) == ["claim-p0"]


def test_the_lock_of_a_pod_whose_binding_the_cluster_refuses_for_good_is_given_back():
    cluster = Cluster(VNPU, VNPU)
    begun = []
    for half_seconds in range(60):
        now = NOW + half_seconds / 2
        for one in cluster.core.take(now):
            match one:
                case BindPod(uid=uid):
                    begun.append(uid)
                    if uid == "p0":
                        cluster.core.handle(ClusterFailed(one, "metadata.annotations: Too long", True, 0.0), now)
                case Annotate():
                    cluster.core.node("n1", NodeView(name="n1"))
                case LockNode():
                    cluster.core.lock_answered(one.claim, one.value, now)
                    cluster.core.node("n1", NodeView(name="n1", locks=((HAMI, one.value),)))
    assert begun[0] == "p0"
    assert "p1" in begun


@pytest.mark.parametrize("shown", [False, True])
def test_a_pod_that_waits_for_another_ones_handoff_leaves_it_the_lock(shown):
    """After a restart of the API server: it refuses a binding once, and does not answer a request for the lock."""
    cluster = Cluster(VNPU, VNPU)
    (lock,) = cluster.core.take(NOW)
    cluster.core.lock_answered("claim-p0", lock.value, NOW)
    cluster.begun()
    cluster.core.bind_answered("claim-p0", BindState.REFUSED, "", "pods/binding is forbidden", NOW)
    cluster.core.take(NOW)
    cluster.core.read_answered("claim-p0", "", NOW)
    assert locking(cluster) == ["claim-p1"], "p0 is refused, and the fact of the node does not show its lock yet"
    cluster.core.failed("claim-p1", NOW, 0.0)
    again = msgspec.structs.replace(claim("p0", VNPU), id="again")
    cluster.core.ledger("n1", [again, claim("p1", VNPU)])
    assert locking(cluster) == [], "p0 waits: p1 may have the lock already"
    if shown:
        cluster.core.node("n1", NodeView(name="n1", locks=((HAMI, lock.value),)))
    requested, now = [], NOW
    while not requested and now < NOW + 2 * LINGER:
        commands = cluster.core.take(now)  # as the shell does after each event
        requested = [one.claim for one in commands if isinstance(one, LockNode)]
        if release("n1", HAMI, lock.value) in map(content, commands):
            cluster.core.node("n1", NodeView(name="n1"))
        else:
            now = cluster.core.next_due()
    assert requested == ["claim-p1"]


def test_pods_that_need_two_locks_take_them_in_the_same_order():
    cluster = Cluster(memory(10) + vgpus(1), vgpus(2) + memory(20))
    cluster.core.handle(SchedulerConfigured(ConfigFact(name=SCHEDULER, text=NODE_LOCKS)))
    locks, bound = {}, []
    for turn in range(10):
        commands = cluster.core.take(NOW + turn * 0.2)
        bound += [one.uid for one in commands if isinstance(one, BindPod)]
        for lock in [one for one in commands if isinstance(one, LockNode)]:
            value = locks.setdefault(lock.annotation, lock.value)
            cluster.core.lock_answered(lock.claim, value, NOW + turn * 0.2)
    assert bound, "they wait for each other"
