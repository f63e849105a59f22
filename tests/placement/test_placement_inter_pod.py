"""Inter-pod affinity and topology spread in placement: claims count as pods, waiting pods follow, replicas conflict."""

import pytest
from deviceshare.model import (
    HOSTNAME,
    Claim,
    NamespaceFact,
    NodeFact,
    PodFact,
    PodSelection,
    PodTerm,
    PodTopology,
    Requirement,
)
from deviceshare_bus.messages import subjects
from deviceshare_placement.core.claims import INTER_POD
from deviceshare_placement.core.facts import EXCLUSION_DELAY
from deviceshare_placement.core.own_work import OwnWork
from msgspec.structs import replace
from support.builders import ask, container, node, pod
from support.played import Played

ZONE = "topology.kubernetes.io/zone"
CPU = ask(container(cpu=100))


def selector(app: str):
    return (Requirement("app", "In", (app,)),)


def term(app: str, key: str = HOSTNAME, **more) -> PodTerm:
    return PodTerm(key, PodSelection(selector(app), **({"namespaces": ("ns",)} | more)))


def labelled(name: str, app: str = "", topology: PodTopology | None = None, **more) -> PodFact:
    return replace(pod(name, replace(CPU, topology=topology), **more), labels=(("app", app),) if app else ())


def place(name: str, zone: str = "z") -> NodeFact:
    return node(name, labels={HOSTNAME: name, ZONE: zone})


def apart(app: str, key: str = HOSTNAME) -> PodTopology:
    return PodTopology("ns", (("app", app),), anti_affinity=(term(app, key),))


def near(app: str) -> PodTopology:
    return PodTopology("ns", affinity=(term(app),))


def claimed(out) -> dict[str, str]:
    return {claim.name: ledger.node for ledger in out.ledgers for claim in ledger.claims}


def test_replicas_of_one_round_keep_apart() -> None:
    core = Played(place("a"), place("b"))
    for number in range(3):
        core.put(labelled(f"p{number}", "db", apart("db")))
    out = core.tick()
    assert sorted(claimed(out).values()) == ["a", "b"]
    assert any("2 node(s) didn't match pod anti-affinity rules" in text for text in out.messages)


def test_a_pod_that_others_keep_out_goes_elsewhere_though_it_has_no_constraint() -> None:
    core = Played(place("a"), place("b"))
    core.put(replace(labelled("first", "db", apart("db")), node="a"), labelled("plain", "db"))
    assert core.settle() == {"plain": "b"}


def test_a_waiting_pod_is_classified_again_when_a_constraint_appears() -> None:
    core = Played(place("a"))
    core.put(labelled("plain", "db"))
    core.put(replace(labelled("guard", "", PodTopology("ns", anti_affinity=(term("db"),))), node="a"))
    assert core.settle() == {}


def test_a_pod_that_needs_another_is_placed_after_it() -> None:
    core = Played(place("a"), place("b"))
    core.put(labelled("follower", "", near("db")))
    assert core.settle() == {}
    core.put(labelled("leader", "db"))
    found = core.settle()
    assert found["follower"] == found["leader"]


def test_a_pod_that_needs_another_is_placed_after_a_foreign_pod_was_bound() -> None:
    core = Played(place("a"), place("b"))
    core.put(labelled("follower", "", near("db")))
    assert core.settle() == {}
    core.put(replace(labelled("foreign", "db"), node="b", scheduler="other"))
    assert core.settle() == {"follower": "b"}


def test_labels_of_namespaces_decide() -> None:
    selects = PodSelection(selector("db"), (), (Requirement("env", "In", ("prod",)),))
    core = Played(place("a"))
    core.put(replace(labelled("there", "db"), node="a"))
    core.put(labelled("follower", "", PodTopology("ns", affinity=(PodTerm(HOSTNAME, selects),))))
    assert core.settle() == {}
    core.put(NamespaceFact(name="ns", labels=(("env", "prod"),)))
    assert core.settle() == {"follower": "a"}
    core.put(labelled("later", "", PodTopology("ns", affinity=(PodTerm(HOSTNAME, selects),))))
    core.remove("namespace", "ns")
    assert core.settle() == {}


def test_a_waiting_pod_is_classified_again_when_a_term_selects_its_namespace_no_more() -> None:
    selects = PodSelection(selector("db"), (), (Requirement("env", "In", ("prod",)),))
    core = Played(place("a"))
    core.put(NamespaceFact(name="ns", labels=(("env", "prod"),)))
    guard = PodTopology("ns", anti_affinity=(PodTerm(HOSTNAME, selects),))
    core.put(replace(labelled("guard", "", guard), node="a"), labelled("plain", "db"))
    assert core.settle() == {}
    core.put(NamespaceFact(name="ns", labels=(("env", "dev"),)))
    assert core.settle() == {"plain": "a"}


def test_a_claim_of_another_replica_counts_before_its_pod_is_known() -> None:
    core = Played(place("a"), place("b"))
    core.put(labelled("mine", "db", apart("db")))
    theirs = Claim(id="other-1", uid="uid-theirs", namespace="ns", name="theirs", labels=(("app", "db"),))
    core.ledger("a", 1, theirs)
    assert core.settle() == {"mine": "b"}


def test_claims_that_constraints_concern_are_written_with_a_message_that_conflicts() -> None:
    core = Played(place("a"), place("b"), place("c"))
    core.put(labelled("alone"), labelled("one", "db", apart("db")), labelled("two", "db"))
    out = core.tick()
    together = [write for write in out.writes if len(write.writes) > 1]
    assert len(together) == 1
    subjects_of = {each.subject for each in together[0].writes}
    assert subjects.ledger(INTER_POD) in subjects_of
    assert {claim.name for each in together[0].writes for claim in each.message.claims} >= {"one", "two"}


def test_the_first_pod_with_a_term_waits_until_other_replicas_know_it(monkeypatch) -> None:
    core = Played(place("a"), place("b"), place("c"))
    monkeypatch.setattr(OwnWork, "others", 1)
    core.put(labelled("first", "db", apart("db")))
    assert not core.tick().writes
    assert core.due == pytest.approx(EXCLUSION_DELAY)
    core.now += EXCLUSION_DELAY
    assert core.settle() == {"first": "a"}
    core.put(labelled("second", "db", apart("db")))
    assert core.settle() == {"second": "b"}


def test_the_shared_message_is_never_dropped_as_that_of_a_node_that_is_gone() -> None:
    core = Played(place("a"))
    core.put(labelled("one", "db", apart("db")))
    core.settle()
    for _ in range(3):
        assert not core.tick(100).writes
    core.put(labelled("two", "web", apart("web")))
    (write,) = core.tick().writes
    assert {each.subject: each.expected for each in write.writes}[subjects.ledger(INTER_POD)] > 0
