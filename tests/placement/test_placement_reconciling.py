"""Differences from the cluster are found and repaired: claims without pods, nodes that another scheduler filled."""

import pytest
from deviceshare.model import ContainerGrant, DeviceGrant, Gone
from deviceshare_placement.core import FactReceived
from deviceshare_placement.core.ledgers import BOUND_GRACE, ORPHAN_GRACE
from deviceshare_placement.core.placement_core import CLAIM_NOT_BOUND, CLAIM_WITHOUT_POD, CLAIM_WITHOUT_ROOM
from msgspec.structs import replace
from support.builders import card, node, pod, vgpu
from support.bus_simulation import STREAMS, Binder, Bus, Cluster, Replica, overdrawn

CARDS = [card(index, memory=100, slots=3) for index in range(2)]


class Play:
    """A bus, a cluster, a binder and one placement; time advances only as the test says."""

    def __init__(self, *nodes):
        self.now = 1000.0
        self.bus = Bus()
        self.cluster = Cluster(self.bus)
        self.binder = Binder(self.bus, self.cluster)
        self.repaired = []
        for each in nodes:
            self.cluster.put(each)
        self.cluster.sync()
        self.replica = Replica(self.bus, "placement-1")
        self.run()

    def decide(self):
        """Let placement read all and decide, the binder being away."""
        for _ in range(5):
            for stream in STREAMS:
                self.replica.read(stream, 1000, self.now)
            self.repaired += self.replica.tick(self.now).repaired
            while self.replica.answers:
                self.replica.answer(0, self.now)

    def run(self, seconds=0.0):
        """Let everything happen that can, some of it after so many seconds."""
        until = self.now + seconds
        while True:
            for _ in range(5):
                self.decide()
                while self.binder.busy:
                    self.binder.work(skip=True)
            if self.now >= until:
                break
            self.now += 1.0

    def claims(self):
        """Return the pods that have a claim and where."""
        return {claim.name: name for name, ledger in self.bus.ledgers().items() for claim in ledger.claims}

    def nodes(self):
        """Return where pods are bound."""
        return {each.name: each.node for each in self.cluster.pods.values()}


def foreign(name, memory, where="a", at="GPU-0"):
    """Return a pod that another scheduler bound."""
    grant = ContainerGrant("c0", 0, "hami-core", (DeviceGrant(at, 0, memory, 0),))
    return pod(name, vgpu(1, memory), node=where, held=(grant,), scheduler="other")


def test_a_claim_whose_binding_was_lost_is_withdrawn_and_the_pod_is_decided_again():
    play = Play(node("a", CARDS))
    play.cluster.put(pod("p", vgpu(1, 60)))
    play.run()
    play.cluster.unbind("uid-p")
    play.run(BOUND_GRACE - 2)
    assert (play.nodes(), play.repaired) == ({"p": ""}, [])
    play.run(5)
    assert (play.nodes(), play.repaired) == ({"p": "a"}, [CLAIM_NOT_BOUND])
    assert play.cluster.bindings["uid-p"] == 2


def test_a_fact_that_comes_late_costs_a_bound_pod_nothing():
    play = Play(node("a", CARDS))
    play.cluster.put(pod("p", vgpu(1, 60)))
    play.run()
    bound = play.cluster.pods["uid-p"]
    play.bus.put("CLUSTER", "cluster.pod.uid-p", replace(bound, node="", held=()))  # an old message once more
    play.run(BOUND_GRACE + 2)
    assert play.repaired == [CLAIM_NOT_BOUND]
    assert play.claims() == {"p": "a"}
    play.bus.put("CLUSTER", "cluster.pod.uid-p", bound)
    play.run(60)
    assert play.repaired == [CLAIM_NOT_BOUND]
    assert (play.claims(), play.cluster.bindings["uid-p"]) == ({"p": "a"}, 1)


def test_a_claim_whose_pod_is_unknown_lives_for_seconds():
    play = Play(node("a", CARDS))
    play.cluster.put(pod("p", vgpu(2)))
    play.decide()
    assert play.claims() == {"p": "a"}
    # Placement starts anew, and the facts of the pod were lost with it.
    play.bus.streams["CLUSTER"] = [entry for entry in play.bus.streams["CLUSTER"] if entry[1] != "cluster.pod.uid-p"]
    del play.cluster.pods["uid-p"]
    play.replica = Replica(play.bus, "placement-2")
    play.cluster.put(pod("q", vgpu(2)))
    play.run(ORPHAN_GRACE + 2)
    assert (play.nodes(), play.claims()) == ({"q": "a"}, {"q": "a"})
    assert play.repaired in ([CLAIM_WITHOUT_POD], [])  # the binder may have refused it before


@pytest.mark.parametrize("word", [None, Gone()])
def test_messages_that_come_twice_change_nothing(word):
    play = Play(node("a", CARDS))
    play.cluster.put(pod("p", vgpu(1, 60)))
    play.run()
    for stream in STREAMS:
        for _, subject, message in play.bus.streams[stream][:]:
            if stream == "CLUSTER":
                play.replica.send(FactReceived(subject, message), play.now)
    if word is not None:
        play.replica.send(FactReceived("cluster.pod.uid-never-seen", word), play.now)
    play.run(60)
    assert (play.nodes(), play.claims()) == ({"p": "a"}, {"p": "a"})
    assert play.cluster.bindings["uid-p"] == 1


def test_pods_of_another_scheduler_count_at_once():
    play = Play(node("a", CARDS))
    play.cluster.put(foreign("theirs", 100))
    play.cluster.put(foreign("theirs-too", 90, at="GPU-1"))
    play.cluster.put(pod("p", vgpu(1, 20)))
    play.run()
    assert play.nodes()["p"] == ""
    play.cluster.remove("pod", "uid-theirs")
    play.run()
    assert play.nodes()["p"] == "a"


def test_claims_that_do_not_fit_any_more_give_way_the_newest_first():
    play = Play(node("a", CARDS[:1]), node("b", [card(0, node="b", memory=100)], unschedulable=True))
    for number, memory in enumerate((30, 30, 30)):
        play.now += 1
        play.cluster.put(pod(f"p{number}", vgpu(1, memory), created=play.now))
        play.decide()
    assert play.claims() == {"p0": "a", "p1": "a", "p2": "a"}
    play.cluster.put(foreign("theirs", 40))
    play.run()
    assert play.repaired == [CLAIM_WITHOUT_ROOM]
    assert play.nodes() == {"p0": "a", "p1": "a", "p2": "", "theirs": "a"}
    assert overdrawn(play.cluster, play.bus.ledgers()) == []
    play.cluster.put(node("b", [card(0, node="b", memory=100)]))
    play.run(10)
    assert play.nodes()["p2"] == "b"


def test_bound_pods_stay_and_the_overcommitted_card_takes_no_pod():
    play = Play(node("a", CARDS[:1]))
    play.cluster.put(pod("p", vgpu(1, 60)))
    play.run()
    play.cluster.put(foreign("theirs", 60))
    play.cluster.put(pod("q", vgpu(1, 1)))
    play.run(30)
    assert (play.nodes(), play.repaired) == ({"p": "a", "theirs": "a", "q": ""}, [])
    assert play.claims() == {"p": "a"}


def test_a_card_that_shrinks_lets_claims_give_way():
    play = Play(node("a", CARDS[:1]))
    play.cluster.put(pod("p", vgpu(1, 60)))
    play.decide()
    play.cluster.put(node("a", [card(0, memory=50)]))
    play.decide()
    assert play.repaired == [CLAIM_WITHOUT_ROOM]
    play.run()
    assert (play.nodes(), play.claims()) == ({"p": ""}, {})
