"""Pods are handed over to device plugins one after the other where a plugin could take one for another."""

from typing import ClassVar

import hypothesis.strategies as st
import msgspec
import pytest
from deviceshare.model import Claim, ContainerGrant, DeviceGrant, Outcome
from deviceshare_binder.bind_task import Bind, GiveUp, Read, WriteOutcomes
from deviceshare_binder.core import Core
from deviceshare_binder.locks import LINGER, Lock, Unlock
from deviceshare_binder.plugin_handoff import PATIENCE, Stuck
from deviceshare_binder.reports import Reports
from deviceshare_binder.views import NodeView, PodView
from deviceshare_cluster.interface import BindState
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

NOW = 1_700_000_000.0
AT = "2023-11-14T22:13:20Z"
HAMI = "hami.io/mutex.lock"
TO_SERVE = {"volcano.sh/devices-to-allocate": "GPU-0,NVIDIA,10,0:"}


def vgpus(*counts, stage=""):
    return tuple(
        ContainerGrant(f"c{at}", at, "hami-core", tuple(DeviceGrant(f"GPU-{n}", n, 10, 0) for n in range(count)), stage)
        for at, count in enumerate(counts)
    )


def memory(amount):
    return (ContainerGrant("c0", 0, "gpu-share", (DeviceGrant("0", 0, amount, 0),)),)


VNPU = (ContainerGrant("c0", 0, "hami-vnpu", (DeviceGrant("D0", 0, 3072, 0, "Ascend310P/vir01"),)),)
VNPUS = (*VNPU, ContainerGrant("c1", 1, "hami-vnpu", (DeviceGrant("D1", 1, 3072, 0, "Ascend310P/vir01"),)))
SEVERAL = "vNPUs in several containers"


def part(cores):
    device = DeviceGrant("Ascend310P-0", 0, 0, cores, f"vir0{cores}", made="unmade")
    return (ContainerGrant("c0", 0, "mindcluster", (device,)),)


def pod(uid, grants=(), node="", **fields):
    containers = [(f"c{at}",) for at in range(max(1, len(grants)))]
    view = {"kind": "pod", "uid": uid, "namespace": "default", "name": uid, "node": node, **fields}
    return msgspec.convert(view | {"ask": {"containers": containers}}, PodView)


def claim(uid, grants):
    return Claim(id=f"claim-{uid}", uid=uid, namespace="default", name=uid, grants=grants)


class Cluster:
    """A core with claims on one node, and the answers that it gets."""

    def __init__(self, *grants, locks=()):
        self.core = Core()
        self.core.node("n1", NodeView(name="n1", locks=tuple(locks)))
        self.grants = {f"p{number}": each for number, each in enumerate(grants)}
        for uid, each in self.grants.items():
            self.core.pod(uid, pod(uid, each))
        self.core.start()
        self.claims(*self.grants)

    def claims(self, *uids):
        self.core.ledger("n1", {f"claim-{uid}": claim(uid, self.grants[uid]) for uid in uids})

    def begun(self, now=NOW):
        return [one.uid for one in self.core.take(now) if isinstance(one, Bind)]

    def bound(self, uid, *unserved, fact=True):
        self.core.bind_answered(f"claim-{uid}", BindState.BOUND, "n1", "", NOW, TO_SERVE)
        if fact:
            self.fact(uid, *unserved)

    def fact(self, uid, *unserved, **fields):
        keys = [("hami-core", key) for key in unserved]
        self.core.pod(uid, pod(uid, self.grants[uid], "n1", unserved=keys, **fields))


@pytest.mark.parametrize(
    ("first", "second", "together"),
    [
        (vgpus(1), vgpus(2), True),
        (vgpus(2), vgpus(2), False),
        (vgpus(1, 1), vgpus(2), False),  # found by two, asked for one by one
        (vgpus(1, 1), vgpus(1), False),
        (vgpus(2), vgpus(1) + vgpus(2, stage="init"), False),
        (memory(1024), memory(2048), True),
        (memory(1024), memory(1024), False),
        (memory(1024) + memory(2048), memory(2048), False),
        (memory(1024), memory(2048) + memory(1024), False),
        (memory(1024) + memory(2048), memory(3072), True),
        (memory(1024), vgpus(1), True),
        (part(1), part(2), True),
        (part(2), part(2), False),
        (part(1) + part(1), part(2), False),  # parts of one chip
        (part(1), part(2) + part(1), False),
        ((), (), True),
    ],
)
def test_what_a_plugin_cannot_tell_apart_is_not_on_its_way_together(first, second, together):
    assert Cluster(first, second).begun() == (["p0", "p1"] if together else ["p0"])


def test_the_next_is_bound_when_the_plugin_has_served_the_first():
    cluster = Cluster(vgpus(2), vgpus(2), vgpus(2))
    assert cluster.begun() == ["p0"]
    cluster.bound("p0", fact=False)
    assert cluster.begun() == [], "no fact has told yet whether it is served"
    cluster.fact("p0", "2 vGPUs")
    assert cluster.begun() == []
    cluster.fact("p0")
    assert cluster.begun() == ["p1"]


def test_a_pod_that_is_served_when_the_cluster_answers_holds_nobody_up():
    cluster = Cluster(vgpus(2), vgpus(2))
    cluster.begun()
    cluster.core.bind_answered("claim-p0", BindState.BOUND, "n1", "", NOW, {"volcano.sh/bind-phase": "success"})
    assert cluster.begun() == ["p1"]


def test_who_waits_longer_goes_first_and_others_go_past():
    cluster = Cluster(vgpus(2), vgpus(1, 1), vgpus(1), vgpus(3))
    assert cluster.begun() == ["p0", "p3"], "the third waits for the second, which needs both counts"
    cluster.bound("p0")
    assert cluster.begun() == ["p1"]
    cluster.bound("p1")
    assert cluster.begun() == ["p2"]


@pytest.mark.parametrize("answer", [BindState.REFUSED, BindState.GONE])
def test_a_pod_that_is_not_bound_lets_the_next_go(answer):
    cluster = Cluster(vgpus(2), vgpus(2))
    cluster.begun()
    cluster.core.bind_answered("claim-p0", answer, "", "no", NOW)
    assert cluster.begun() == ["p1"]


def test_a_binding_without_an_answer_is_tried_again_before_those_who_wait_for_it():
    cluster = Cluster(vgpus(2), vgpus(2))
    cluster.begun()
    cluster.core.failed("claim-p0", NOW, 0.0)
    assert cluster.begun(cluster.core.next_due()) == ["p0"]


def test_a_pod_of_another_scheduler_that_waits_for_its_plugin_is_waited_for():
    cluster = Cluster(vgpus(2))
    cluster.grants["theirs"] = vgpus(2)
    cluster.fact("theirs", "2 vGPUs")
    assert cluster.begun() == []
    cluster.core.pod("theirs", None)
    assert cluster.begun() == ["p0"]


def test_a_claim_that_waits_can_be_withdrawn():
    cluster = Cluster(vgpus(2), vgpus(2), vgpus(2))
    cluster.begun()
    claims = {f"claim-{uid}": claim(uid, vgpus(2)) for uid in ("p0", "p1", "p2")}
    claims["claim-p1"] = msgspec.structs.replace(claims["claim-p1"], withdraw=True)
    cluster.core.ledger("n1", claims)
    (read,) = cluster.core.take(NOW)
    assert isinstance(read, Read)
    cluster.core.read_answered("claim-p1", "", NOW)
    cluster.bound("p0")
    assert cluster.begun() == ["p2"]


def test_who_is_bound_by_somebody_else_when_its_turn_comes_holds_nobody_up():
    cluster = Cluster(vgpus(2), (), vgpus(2), vgpus(2))
    assert cluster.begun() == ["p0", "p1"]
    cluster.bound("p0")
    cluster.fact("p2")  # bound and served, before the core is asked
    begun = [(type(one), one.uid) for one in cluster.core.take(NOW) if isinstance(one, Bind | Read)]
    assert sorted(begun, key=str) == [(Bind, "p3"), (Read, "p2")]


def test_a_stuck_pod_is_reported_with_those_who_wait_for_it():
    cluster = Cluster(vgpus(2), vgpus(2))
    cluster.begun()
    cluster.bound("p0", "2 vGPUs")
    cluster.core.take(NOW)
    assert cluster.core.next_due() == NOW + PATIENCE
    (stuck,) = [one for one in cluster.core.take(NOW + PATIENCE) if isinstance(one, Stuck)]
    assert (stuck.uid, stuck.keys, stuck.waiting) == ("p0", ["2 vGPUs"], ["claim-p1"])
    assert not [one for one in cluster.core.take(NOW + 2 * PATIENCE) if isinstance(one, Stuck)], "once"
    assert cluster.core.handoffs.stuck == 1
    reports = Reports(cluster.core.pods)
    reports.stuck(stuck, cluster.core.claims(stuck.waiting))
    told, waits = reports.take_scheduled(), reports.take_pending()
    assert (told.uid, told.reason, told.warning) == ("p0", "DevicePluginStuck", True)
    assert "the vGPU device plugin of n1 does not serve this pod, which has 2 vGPUs" in told.message
    assert waits.uid == "p1"
    assert "has not served pod default/p0 yet" in waits.message
    cluster.fact("p0")
    assert cluster.core.handoffs.stuck == 0


def test_a_pod_that_ended_unserved_is_taken_out_of_the_plugins_sight_before_the_next():
    cluster = Cluster(vgpus(2), vgpus(2))
    cluster.begun()
    cluster.bound("p0", "2 vGPUs")
    cluster.fact("p0", "2 vGPUs", ended=True)
    (given_up,) = [one for one in cluster.core.take(NOW) if isinstance(one, GiveUp)]
    assert given_up.uid == "p0"
    assert given_up.annotations["volcano.sh/devices-to-allocate"] == ""
    cluster.fact("p0", ended=True)
    assert cluster.begun() == ["p1"]


def test_after_a_restart_open_claims_are_read_before_others_like_them_are_bound():
    core = Core()
    core.node("n1", NodeView(name="n1"))
    for uid in ("old", "new"):
        core.pod(uid, pod(uid, vgpus(2)))
    core.ledger("n1", {"claim-old": claim("old", vgpus(2))})
    core.start()
    core.ledger("n1", {f"claim-{uid}": claim(uid, vgpus(2)) for uid in ("old", "new")})
    (read,) = core.take(NOW)
    assert isinstance(read, Read)
    core.read_answered("claim-old", "n1", NOW, None)
    assert not [one for one in core.take(NOW) if isinstance(one, Bind)], "bound, and no fact says that it is served"
    core.pod("old", pod("old", vgpus(2), "n1"))
    assert [one.uid for one in core.take(NOW) if isinstance(one, Bind)] == ["new"]


def test_after_a_restart_a_binding_of_which_no_fact_tells_yet_is_reckoned_with():
    core = Core()
    core.node("n1", NodeView(name="n1"))
    for uid in ("old", "new"):
        core.pod(uid, pod(uid, vgpus(2)))
    core.ledger("n1", {"claim-old": claim("old", vgpus(2))})
    core.outcomes("n1", 1, {"claim-old": Outcome("claim-old", "old", "bound")})
    core.start()
    core.ledger("n1", {f"claim-{uid}": claim(uid, vgpus(2)) for uid in ("old", "new")})
    assert core.take(NOW) == []
    core.pod("old", pod("old", vgpus(2), "n1"))
    assert [one.uid for one in core.take(NOW) if isinstance(one, Bind)] == ["new"]


@pytest.mark.parametrize(("devices", "state"), [(vgpus(2), "bound"), (vgpus(1), "refused")])
def test_a_pod_that_is_bound_already_is_ours_if_it_has_the_claims_devices(devices, state):
    cluster = Cluster(vgpus(2))
    (bind,) = cluster.core.take(NOW)
    other = Cluster(devices).core.take(NOW - 77)[0]
    written = {**other.annotations, "volcano.sh/bind-phase": "success", "volcano.sh/devices-to-allocate": ""}
    cluster.core.bind_answered(bind.claim, BindState.ALREADY, "n1", "", NOW, written)
    (write,) = [one for one in cluster.core.take(NOW) if isinstance(one, WriteOutcomes)]
    (outcome,) = write.outcomes
    reason = "" if state == "bound" else "the pod is bound to n1 with other devices"
    assert (outcome.state, outcome.reason) == (state, reason)


# -- locks ----------------------------------------------------------------------------------------------------------


def test_the_plugin_that_serves_the_pod_that_the_lock_names_finds_it_locked():
    cluster = Cluster(VNPU, VNPU)
    (lock,) = cluster.core.take(NOW)
    assert lock == Lock("claim-p0", "n1", HAMI, f"{AT},default,p0", None)
    cluster.core.lock_answered("claim-p0", lock.value, NOW)
    assert cluster.begun() == ["p0"]
    cluster.core.bind_answered("claim-p0", BindState.BOUND, "n1", "", NOW)
    cluster.core.node("n1", NodeView(name="n1", locks=((HAMI, lock.value),)))
    cluster.fact("p0", "vNPUs")
    assert not [one for one in cluster.core.take(NOW) if isinstance(one, Lock | Bind)]
    cluster.fact("p0")
    assert not [one for one in cluster.core.take(NOW) if isinstance(one, Lock)], "the plugin has not given it back"
    cluster.core.node("n1", NodeView(name="n1"))
    (second,) = [one for one in cluster.core.take(NOW) if isinstance(one, Lock)]
    assert (second.claim, second.expected) == ("claim-p1", None)


def locking(cluster, now=NOW):
    return [one.claim for one in cluster.core.take(now) if isinstance(one, Lock)]


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
    assert cluster.core.handoffs.stuck == 0
    cluster.fact("served", until_running=[SEVERAL])
    cluster.core.take(NOW + PATIENCE)
    assert cluster.core.handoffs.next_due() is None, "once"


def test_a_pod_that_is_served_late_is_waited_for_a_minute_from_then_on():
    cluster = Cluster(VNPUS)
    cluster.grants["served"] = VNPU
    cluster.core.pod("served", pod("served", VNPU, "n1", unserved=[("hami-vnpu", SEVERAL)]))
    assert locking(cluster) == []
    late = NOW + PATIENCE - 1
    cluster.fact("served", until_running=[SEVERAL])
    assert locking(cluster, late) == []
    assert locking(cluster, NOW + PATIENCE) == [], "that is the end of another wait"
    assert locking(cluster, late + PATIENCE) == ["claim-p0"]


def test_who_waits_for_a_lock_that_the_plugin_does_not_give_back_gets_it_when_we_do():
    cluster = Cluster(VNPU, VNPU)
    (lock,) = cluster.core.take(NOW)
    cluster.core.lock_answered("claim-p0", lock.value, NOW)
    cluster.core.node("n1", NodeView(name="n1", locks=((HAMI, lock.value),)))
    cluster.begun()
    cluster.core.bind_answered("claim-p0", BindState.BOUND, "n1", "", NOW)
    cluster.fact("p0")
    cluster.core.take(NOW)
    told = cluster.core.take(NOW + LINGER)
    assert Unlock("n1", HAMI, lock.value) in told
    cluster.core.node("n1", NodeView(name="n1"))
    assert [one.claim for one in cluster.core.take(NOW + LINGER) if isinstance(one, Lock)] == ["claim-p1"]


def test_a_lock_that_the_plugin_does_not_give_back_is_given_back():
    cluster = Cluster(VNPU)
    (lock,) = cluster.core.take(NOW)
    cluster.core.lock_answered("claim-p0", lock.value, NOW)
    cluster.core.node("n1", NodeView(name="n1", locks=((HAMI, lock.value),)))
    cluster.begun()
    cluster.core.bind_answered("claim-p0", BindState.REFUSED, "", "no", NOW)
    assert not [one for one in cluster.core.take(NOW) if isinstance(one, Unlock)]
    due = cluster.core.next_due()
    assert [one for one in cluster.core.take(due) if isinstance(one, Unlock)] == [Unlock("n1", HAMI, lock.value)]
    assert cluster.core.next_due() is None


def test_a_lock_that_somebody_else_had_first_is_asked_for_again():
    cluster = Cluster(VNPU)
    cluster.core.take(NOW)
    cluster.core.lock_answered("claim-p0", f"{AT},default,theirs", NOW)
    assert cluster.core.take(NOW) == []
    (again,) = cluster.core.take(cluster.core.next_due())
    assert isinstance(again, Lock)


@pytest.mark.parametrize(
    ("grants", "annotation", "value"),
    [
        (vgpus(1), "hamivgpu", AT),
        (vgpus(1), "volcano.sh/mutex.lock", AT),
        (memory(10), "gpu", AT),
        (VNPU, HAMI, AT),
        (VNPU, HAMI, f"{AT},default,unknown"),
    ],
)
def test_a_lock_of_another_scheduler_is_waited_for_until_it_is_five_minutes_old(grants, annotation, value):
    cluster = Cluster(grants, locks=[(annotation, value)])
    assert cluster.core.take(NOW + 299) == []
    assert cluster.core.next_due() == NOW + 300
    (step,) = cluster.core.take(NOW + 300)
    assert isinstance(step, Lock if grants is VNPU else Bind)


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
    cluster.core.locks.every_family = True
    first, second = cluster.core.take(NOW)
    assert (first.annotation, first.value, first.expected) == ("hamivgpu", AT, None)
    cluster.core.lock_answered("claim-p0", AT, NOW)
    cluster.core.lock_answered("claim-p1", "2023-11-14T22:13:19Z", NOW)
    assert second.claim == "claim-p1"
    assert cluster.begun() == ["p0"]


# -- any order ------------------------------------------------------------------------------------------------------


COUNTS = [(1,), (1,), (2,), (2,), (1, 1), (3,), (1,)]


class AnyOrder(RuleBasedStateMachine):
    """A cluster with vGPU plugins that take any pod with the right number; facts are late, the core crashes."""

    NODES = ("n1", "n2")
    PODS: ClassVar = {f"p{number}": vgpus(*counts) for number, counts in enumerate(COUNTS)}

    def __init__(self):
        super().__init__()
        self.now = NOW
        self.where = dict.fromkeys(self.PODS, "")
        self.served, self.ended, self.out_of_sight = set(), set(), set()
        self.ledger = {name: {} for name in self.NODES}
        self.on_bus = {name: (0, {}) for name in self.NODES}
        self.crash()

    def crash(self):
        self.core = Core(limit=3)
        self.flying = []
        for name in self.NODES:
            self.core.ledger(name, dict(self.ledger[name]))
            self.core.outcomes(name, *self.on_bus[name])
            self.core.node(name, NodeView(name=name))
        for uid in self.PODS:
            self.core.pod(uid, pod(uid, self.PODS[uid]))  # what the bus says may be old
        self.core.start()

    def view(self, uid):
        counts = [len(grant.devices) for grant in self.PODS[uid]]
        numbers = {*counts, sum(counts)}
        keys = [("hami-core", f"{n} vGPU{'s' * (n > 1)}") for n in sorted(numbers)]
        waits = self.where[uid] and uid not in self.served and uid not in self.out_of_sight
        return pod(uid, self.PODS[uid], self.where[uid], unserved=keys if waits else [], ended=uid in self.ended)

    @invariant()
    def no_plugin_can_take_one_pod_for_another(self):
        for name in self.NODES:
            seen = set()
            for uid, where in self.where.items():
                if where == name and uid not in self.served | self.out_of_sight:
                    counts = [len(grant.devices) for grant in self.PODS[uid]]
                    numbers = {*counts, sum(counts)}
                    assert not numbers & seen, f"two pods with {numbers & seen} vGPUs on {name}"
                    seen |= numbers

    @rule(uid=st.sampled_from(sorted(PODS)), node=st.sampled_from(NODES))
    def placement_claims(self, uid, node):
        if not any(f"claim-{uid}" in claims for claims in self.ledger.values()):
            self.ledger[node][f"claim-{uid}"] = claim(uid, self.PODS[uid])
            self.core.ledger(node, dict(self.ledger[node]))

    @rule(uid=st.sampled_from(sorted(PODS)))
    def the_plugin_serves(self, uid):
        if self.where[uid] and uid not in self.ended:
            self.served.add(uid)

    @rule(uid=st.sampled_from(sorted(PODS)))
    def a_pod_ends(self, uid):
        if self.where[uid]:
            self.ended.add(uid)

    @rule(uid=st.sampled_from(sorted(PODS)))
    def a_fact_comes(self, uid):
        self.core.pod(uid, self.view(uid))

    @rule(seconds=st.sampled_from([0.1, 10.0, 100.0]))
    def time_goes_by(self, seconds):
        self.now += seconds

    @rule()
    def the_core_is_asked(self):
        for one in self.core.take(self.now):
            if isinstance(one, Bind | Read):
                self.flying.append(one)
            elif isinstance(one, GiveUp):
                assert one.uid in self.ended
                self.out_of_sight.add(one.uid)
            elif isinstance(one, WriteOutcomes):
                sequence = one.sequence + 1
                self.on_bus[one.node] = (sequence, {each.claim: each for each in one.outcomes})
                self.core.outcomes_written(one.node, sequence)

    @rule(data=st.data(), done=st.booleans(), answered=st.booleans())
    def the_cluster_acts(self, data, done, answered):
        if not self.flying:
            return
        one = self.flying.pop(data.draw(st.integers(0, len(self.flying) - 1)))
        answer = self.act(one) if done else None
        if answer is None or not answered:
            self.core.failed(one.claim, self.now, 0.0)
        elif isinstance(one, Read):
            self.core.read_answered(one.claim, answer, self.now)
        else:
            self.core.bind_answered(one.claim, *answer, self.now)

    def act(self, one):
        where = self.where[one.uid]
        if isinstance(one, Read):
            return where
        if where:
            return BindState.ALREADY, where, ""
        self.where[one.uid] = one.node
        return BindState.BOUND, one.node, ""

    @rule(data=st.data())
    def the_binder_is_killed(self, data):
        for one in self.flying:
            if data.draw(st.booleans()):
                self.act(one)
        self.crash()

    def teardown(self):
        """When plugins serve and the cluster answers, every claim gets its outcome: nobody starves."""
        for _ in range(20 * len(self.PODS)):
            for uid in self.PODS:
                if self.where[uid] and uid not in self.ended:
                    self.served.add(uid)
                self.core.pod(uid, self.view(uid))
            self.now += 10.0
            self.the_core_is_asked()
            while self.flying:
                one = self.flying.pop()
                answer = self.act(one)
                if isinstance(one, Read):
                    self.core.read_answered(one.claim, answer, self.now)
                else:
                    self.core.bind_answered(one.claim, *answer, self.now)
                self.no_plugin_can_take_one_pod_for_another()
        self.the_core_is_asked()
        for name in self.NODES:
            assert self.on_bus[name][1].keys() == self.ledger[name].keys(), "a claim without an outcome"


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
