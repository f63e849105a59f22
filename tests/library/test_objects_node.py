import json

import pytest
from deviceshare.errors import FormatError
from deviceshare.facts import NodeFact, Taint
from deviceshare.objects import decode_node

REGISTER = "volcano.sh/node-vgpu-register"
CARDS = "GPU-a,10,32768,NVIDIA-Tesla V100,true,hami-core:GPU-b,10,32768,NVIDIA-Tesla V100,true,hami-core:"
SHARED = {
    "cpu": "4",
    "memory": "8174332Ki",
    "pods": "110",
    "volcano.sh/gpu-memory": "89424",
    "volcano.sh/gpu-number": "8",
}


def node(spec=None, status=None, **metadata) -> NodeFact:
    return decode_node(json.dumps({"metadata": {"name": "gpu-1"} | metadata, "spec": spec, "status": status}).encode())


def test_a_node_as_the_seed_shows_it():
    fact = node(
        {"taints": [{"key": "gpu", "effect": "NoSchedule"}]},
        {"allocatable": SHARED, "capacity": SHARED | {"cpu": "8"}, "conditions": [{"type": "Ready", "status": "True"}]},
        labels={"zone": "a"},
        uid="u",
        resourceVersion="9",
    )
    assert (fact.name, fact.uid, fact.revision, fact.ready, fact.unschedulable) == ("gpu-1", "u", "9", True, False)
    assert fact.labels == {"zone": "a"}
    assert fact.taints == (Taint("gpu", "", "NoSchedule"),)
    assert fact.allocatable == {
        "cpu": 4000, "memory": 8174332 * 1024, "pods": 110, "volcano.sh/gpu-memory": 89424, "volcano.sh/gpu-number": 8,
    }  # fmt: skip
    assert [(card.id, card.memory, card.mode) for card in fact.cards] == [
        (str(i), 11178, "gpu-share") for i in range(8)
    ]
    assert fact.problems == ()


@pytest.mark.parametrize(
    ("conditions", "ready"),
    [
        (None, True),
        ([], True),
        ([{"type": "Ready", "status": "True"}], True),
        ([{"type": "Ready", "status": "False"}], False),
        ([{"type": "Ready", "status": "Unknown"}], False),
        ([{"type": "DiskPressure", "status": "False"}], False),
    ],
)
def test_ready_is_what_the_condition_says_and_a_manifest_without_any_is_ready(conditions, ready):
    assert node({}, {"conditions": conditions}).ready is ready


def test_allocatable_falls_back_to_capacity():
    assert node({}, {"capacity": {"cpu": "2"}}).allocatable == {"cpu": 2000}
    assert node({}, {"capacity": {"cpu": "2"}, "allocatable": {"cpu": "1500m"}}).allocatable == {"cpu": 1500}


def test_a_cordoned_node():
    assert node({"unschedulable": True}).unschedulable


def test_registered_cards():
    fact = node({}, {"capacity": {"cpu": "2"}}, annotations={REGISTER: CARDS})
    assert [(card.id, card.index, card.mode) for card in fact.cards] == [
        ("GPU-a", 0, "hami-core"),
        ("GPU-b", 1, "hami-core"),
    ]


def test_a_malformed_register_leaves_the_node_without_cards_and_with_its_cpu():
    fact = node({}, {"capacity": {"cpu": "2"}}, annotations={REGISTER: "GPU-a,ten,32768,T4,true,hami-core:"})
    assert fact.cards == ()
    assert fact.allocatable == {"cpu": 2000}
    (problem,) = fact.problems
    assert problem.subject == "Node gpu-1"
    assert REGISTER in problem.field
    assert problem.value == "ten"


def test_a_mode_that_nobody_knows_is_told_once_and_the_other_cards_stay():
    register = "".join(f"GPU-{at},10,32768,T4,true,{mode}:" for at, mode in enumerate(["mig", "turbo", "", "turbo"]))
    fact = node({}, {"capacity": {"cpu": "2"}}, annotations={REGISTER: register})
    assert [card.mode for card in fact.cards] == ["mig", "turbo", "hami-core", "turbo"]
    (problem,) = fact.problems
    assert (problem.subject, problem.value) == ("Node gpu-1", "turbo")
    assert problem.field.endswith("card 1")
    assert "hami-core, mig, mps" in problem.expected


@pytest.mark.parametrize("register", [CARDS, "malformed"])
def test_cards_that_two_plugins_register_are_not_used_at_all(register):
    fact = node({}, {"capacity": SHARED}, annotations={REGISTER: register})
    assert fact.cards == ()
    assert "registered by two device plugins" in fact.problems[-1].expected


def test_unhealthy_cards_of_the_seed():
    fact = node({}, {"capacity": SHARED}, annotations={"volcano.sh/gpu-unhealthy-ids": "1,GPU-xxxx-1234"})
    assert [card.index for card in fact.cards if not card.healthy] == [1]


def test_a_bad_quantity_and_a_wrong_type_are_problems_and_the_rest_is_kept():
    fact = node(
        {"taints": "none"}, {"capacity": {"cpu": "2", "memory": "lots", "pods": None}}, labels={"a": "x", "b": 1}
    )
    assert fact.allocatable == {"cpu": 2000}
    assert fact.labels == {"a": "x"}
    assert {(problem.field, problem.value) for problem in fact.problems} == {
        ("spec.taints", "none"),
        ("status.capacity[memory]", "lots"),
        ("status.capacity[pods]", "null"),
        ("metadata.labels[b]", "1"),
    }


def test_a_node_without_a_name_is_an_error():
    with pytest.raises(FormatError, match=r"metadata\.name"):
        decode_node(b'{"metadata": {}}')
