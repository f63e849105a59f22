"""Policies of pods, PodGroups and queues: reading the annotations, and choosing nodes and cards by them."""

import json

import pytest
from deviceshare.conf import default_conf
from deviceshare.model import Now, Policies
from deviceshare.objects import decode_pod, decode_podgroup, decode_queue
from deviceshare.policies import CARD_POLICIES, POLICIES, CardPolicy
from deviceshare.scheduler import Scheduler
from msgspec.structs import replace
from support.builders import cards, chosen, cluster, node, pod, take, vgpu, weighted_scores
from support.mig import DOCS, mig_card

NODE, CARD = "deviceshare.io/node-scheduler-policy", "deviceshare.io/card-scheduler-policy"
DECODERS = {"Pod": decode_pod, "PodGroup": decode_podgroup, "Queue": decode_queue}


def decoded(kind, annotations):
    metadata = {"name": "x", "namespace": "ns", "uid": "u", "annotations": annotations}
    return DECODERS[kind](json.dumps({"kind": kind, "metadata": metadata, "spec": {}}).encode())


def policies(kind, **annotations):
    names = {"node": NODE, "card": CARD}
    fact = decoded(kind, {names[name]: value for name, value in annotations.items()})
    return (fact.ask.policies if kind == "Pod" else fact.policies), fact.problems


@pytest.mark.parametrize("kind", DECODERS)
def test_annotations_select_policies_for_nodes_and_cards(kind):
    assert policies(kind) == (Policies(), ())
    assert policies(kind, node="spread") == (Policies("spread"), ())
    assert policies(kind, card=" fragmentation ") == (Policies("", "fragmentation"), ())
    assert policies(kind, node="binpack", card="spread") == (Policies("binpack", "spread"), ())


@pytest.mark.parametrize(("kind", "name"), [("Pod", "ns/x"), ("PodGroup", "ns/x"), ("Queue", "x")])
def test_an_invalid_policy_is_reported_with_object_field_and_value(kind, name):
    found, (problem,) = policies(kind, node="Binpack", card="spread")
    assert found == Policies("", "spread")
    wrong = f"{kind} {name}: metadata.annotations[{NODE}]: 'Binpack' is not valid"
    assert str(problem) == f"{wrong}: expected one of {', '.join(POLICIES)}"


@pytest.mark.parametrize(("kind", "name"), [("Pod", "ns/x"), ("PodGroup", "ns/x"), ("Queue", "x")])
@pytest.mark.parametrize("value", ["topology-aware", "binpack,numa", "mutex", "random"])
def test_a_policy_of_hami_that_is_not_supported_is_reported_and_the_other_one_counts(kind, name, value):
    keys = ["hami.io/node-scheduler-policy", "hami.io/gpu-scheduler-policy"]
    for key, other, expected in ((keys[1], keys[0], Policies("binpack")), (keys[0], keys[1], Policies("", "binpack"))):
        fact = decoded(kind, {key: value, other: "binpack"})
        assert (fact.ask.policies if kind == "Pod" else fact.policies) == expected
        wrong = f"{kind} {name}: metadata.annotations[{key}]: '{value}' is not valid"
        assert [str(each) for each in fact.problems] == [
            f"{wrong}: expected binpack or spread: other policies of HAMi are not supported"
        ]


def test_pods_with_other_policies_do_not_share_a_request():
    assert decoded("Pod", {NODE: "spread"}).ask != decoded("Pod", {}).ask
    assert decoded("Pod", {NODE: "spread"}).ask == decoded("Pod", {NODE: "spread", "other": "x"}).ask


def test_what_is_missing_comes_from_other_objects_and_keeps_its_source():
    own = Policies("spread")
    merged = own.with_defaults(Policies("binpack", "binpack"), "PodGroup").with_defaults(
        Policies("", "spread"), "Queue"
    )
    assert merged == Policies("spread", "binpack", "", "PodGroup")
    assert merged.own == own
    assert Policies().with_defaults(Policies(card="spread"), "Queue") == Policies("", "spread", "", "Queue")
    assert own.with_defaults(Policies(), "Queue") is own


def test_a_pods_policies_replace_that_of_the_configuration():
    conf = replace(default_conf(), policy="binpack")
    assert (conf.node_policy, conf.card_policy) == ("binpack", "binpack")
    other = conf.for_pod(Policies(card="spread"))
    assert (other.node_policy, other.card_policy) == ("binpack", "spread")
    assert conf.for_pod(Policies()) is conf


def asking(memory=1000, node_policy="", card_policy="", cards=1):
    return replace(vgpu(cards, memory), policies=Policies(node_policy, card_policy))


@pytest.mark.parametrize("weight", [0, 10])
@pytest.mark.parametrize("mode", ["hami-core", "mps"])
def test_nodes_and_cards_are_chosen_by_their_own_policies(weight, mode):
    def made(policy=""):
        found = cluster(*(node(name, cards(3, node=name, mode=mode)) for name in "ab"), policy=policy, weight=weight)
        # Node a: 1000 and 3000 MiB in use, node b: 9000 on one card.
        for name, index, memory in (("a", 0, 1000), ("a", 1, 3000), ("b", 0, 9000)):
            only = replace(vgpu(1, memory, annotations={"volcano.sh/vgpu-use-gpuuuid": f"GPU-{name}{index}"}))
            take(found, only, f"{name}{index}")
        return found

    for policy in ("", "binpack", "spread"):
        found = made(policy)
        for node_policy, card_policy, expected in (
            ("binpack", "binpack", ("b", [0])),
            ("binpack", "spread", ("b", [1])),
            ("spread", "binpack", ("b", [0])),
            ("spread", "spread", ("b", [1])),
        ):
            placement = found.place(asking(1000, node_policy, card_policy))
            assert (placement.node, chosen(placement)) == expected, (policy, node_policy, card_policy)
        take(found, vgpu(1, 100, annotations={"volcano.sh/vgpu-use-gpuuuid": "GPU-b2"}), "more")
        take(found, vgpu(1, 100, annotations={"volcano.sh/vgpu-use-gpuuuid": "GPU-b2"}), "again")
        # Three shares on b now, two on a; a has the most full card that is not the fullest of all.
        placement = found.place(asking(1000, "spread", "binpack"))
        assert (placement.node, chosen(placement)) == ("a", [1])


def test_binpack_for_nodes_alone_counts_all_cards_of_the_node():
    found = cluster(*(node(name, cards(2, memory=10_000, node=name)) for name in "ab"))
    take(found, replace(vgpu(2, 3000), node_selector=()), "a")
    found.release("a", "a")
    take(found, vgpu(1, 4000, annotations={"volcano.sh/vgpu-use-gpuuuid": "GPU-a1"}), "one")
    take(found, vgpu(2, 3000, annotations={"volcano.sh/vgpu-use-gpuuuid": "GPU-b0,GPU-b1"}), "two")
    scores = {
        name: round(1e9 * score, 6) for name, score in weighted_scores(found, asking(1000, "binpack", "spread")).items()
    }
    assert scores == {"a": 25.0, "b": 35.0}


@pytest.mark.parametrize(("policy", "expected"), [("binpack", {1}), ("spread", {2})])
def test_the_policy_for_cards_applies_to_mig(policy, expected):
    found = cluster(node(cards=[mig_card(at) for at in range(3)]), devices=DOCS)
    for uid, index in (("one", 1), ("two", 0), ("three", 1)):
        take(found, vgpu(1, 4000, annotations={"volcano.sh/vgpu-use-gpuuuid": f"GPU-{index}"}), uid)
    assert set(chosen(found.place(asking(4000, "", policy)))) == expected


def test_a_registered_policy_orders_cards_and_scores_nodes_by_its_numbers(monkeypatch):
    emptiest = CardPolicy(name="emptiest", by_memory=1, fullness=-1.0)
    monkeypatch.setitem(CARD_POLICIES, "emptiest", emptiest)
    found = cluster(*(node(name, cards(2, memory=10_000, node=name)) for name in "ab"), policy="emptiest", weight=10)
    for name, index, memory in (("a", 0, 2000), ("a", 1, 3000), ("b", 0, 1000), ("b", 1, 4000)):
        take(
            found, vgpu(1, memory, annotations={"volcano.sh/vgpu-use-gpuuuid": f"GPU-{name}{index}"}), f"{name}{index}"
        )
    placement = found.place(vgpu(1, 1000))
    assert (placement.node, chosen(placement)) == ("b", [0])
    assert {name: round(score / 10) for name, score in weighted_scores(found, vgpu(1, 1000)).items()} == {
        "a": -30,
        "b": -20,
    }


def test_a_pod_whose_policy_only_a_newer_version_knows_is_placed_as_without_one():
    request = replace(vgpu(1, 1000), policies=Policies(node="newer", card="newer"))
    scheduler = Scheduler("s")
    scheduler.apply("node", node(cards=cards(2)), Now(0.0, 0.0))
    scheduler.apply("pod", pod("1", request), Now(0.0, 0.0))
    with scheduler.trial() as trial:
        placement = trial.place("uid-1")
    assert chosen(placement) == chosen(cluster(node(cards=cards(2))).place(vgpu(1, 1000)))
