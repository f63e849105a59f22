"""The scheduler places pods with ResourceClaims: on which nodes, with which devices, and when it tries again."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deviceshare.conf import default_conf
from deviceshare.families.dra import slice_kinds
from deviceshare.families.dra.cluster_devices import FEATURES
from deviceshare.families.dra.codec import without_nulls
from deviceshare.model import (
    DeviceClaim,
    Gone,
    Now,
    PodDeviceClaim,
    PodGroupFact,
)
from deviceshare.objects.devices import decode_device_claim, decode_device_class, decode_device_slice
from deviceshare.scheduler import Scheduler
from msgspec.structs import replace
from support.builders import node
from support.decided_devices import Json, decided, names
from support.devices import (
    CONDITIONS,
    DRIVER,
    NOW,
    allocated,
    attaching,
    claim,
    gpu_class,
    gpus,
    key_of,
    scheduler_with,
    sharing,
    using,
)

DATA = Path(__file__).parents[1] / "data" / "dra"


# Recorded answers


def recorded() -> Iterator[tuple[Json, Json]]:
    """Yield the recorded cases in which exactly those features are on that are supported."""
    for name in ("random", "changed"):
        with gzip.open(DATA / f"dra-{name}.jsonl.gz", "rt") as file:
            for line in file:
                entry = json.loads(line)
                if frozenset(entry["case"]["features"]) == FEATURES:
                    yield without_nulls(entry["case"]), entry["answer"]


def cluster_of(case: Json) -> Scheduler:
    nodes = [node(each["metadata"]["name"], labels=each["metadata"].get("labels", {})) for each in case["nodes"]]
    objects = [
        *(decode_device_class(json.dumps(each).encode()) for each in case["deviceClasses"]),
        *(decode_device_slice(json.dumps(each).encode()) for each in case["slices"]),
        *(decode_device_claim(json.dumps(each).encode()) for each in case.get("allocatedClaims", ())),
    ]
    claims = [
        replace(decode_device_claim(json.dumps(each).encode()), key=f"ns/claim-{at}")
        for at, each in enumerate(case["claims"])
    ]
    pod = using("p", *(each.key.removeprefix("ns/") for each in claims))
    return scheduler_with(*nodes, *objects, *claims, pod)


@pytest.mark.parametrize("values", [0, slice_kinds.MAX_VALUES])
def test_nodes_and_devices_are_those_of_kubernetes(monkeypatch: pytest.MonkeyPatch, values: int) -> None:
    """Also where attributes are apart that have more than so many values."""
    monkeypatch.setattr(slice_kinds, "MAX_VALUES", values)
    compared = fitting = 0
    for case, answer in recorded():
        scheduler = cluster_of(case)
        request = scheduler.cluster.pods["uid-p"].pod_class.request
        for name, expected in answer["nodes"].items():
            placement = scheduler.cluster.allocator.place_on(name, request)
            assert (placement is not None) == bool(expected.get("fits")), (case["id"], name)
            compared += 1
            if placement is not None:
                theirs = [
                    [each["device"] for each in given["devices"].get("results") or ()]
                    for given in expected.get("allocations") or ()
                ]
                assert names(placement.devices) == theirs, (case["id"], name)
                fitting += 1
    assert compared > 150
    assert fitting > 40


# A small cluster


def test_a_pod_gets_devices_on_a_node_that_has_them() -> None:
    scheduler = scheduler_with(node("a"), node("b"), gpu_class(), gpus("b", 2), claim("one", 2), using("p", "one"))
    expected = names(decided(scheduler)["p"][1])
    assert expected == [["gpu-0", "gpu-1"]]
    (made,) = scheduler.cluster.ledger("b").claims.values()
    assert [(each.key, each.uid, each.node) for each in made.devices] == [("ns/one", "uid-one", "b")]


def test_without_the_flag_such_pods_are_refused_by_name() -> None:
    scheduler = scheduler_with(node("b"), gpu_class(), gpus("b", 2), claim("one"), using("p", "one"), dra=False)
    assert decided(scheduler) == {}
    assert "spec.resourceClaims, which is not evaluated yet" in scheduler.explain("uid-p", NOW).message


def test_devices_are_given_once_whether_facts_or_decisions_say_so() -> None:
    pods = [using(f"p{at}", f"c{at}") for at in range(4)]
    claims = [claim(f"c{at}") for at in range(4)]
    scheduler = scheduler_with(node("a"), gpu_class(), gpus("a", 3), *claims, *pods)
    first = decided(scheduler)
    assert sorted(names(devices)[0][0] for _, devices in first.values()) == ["gpu-0", "gpu-1", "gpu-2"]
    assert len(first) == 3
    for name, (_, (of_claim,)) in first.items():
        at = int(name[1:])
        has = [(each.pool, each.device) for each in of_claim.results]
        scheduler.apply(key_of(claims[at]), allocated(claims[at], has, f"uid-{name}"), NOW)
    assert decided(scheduler, Now(20.0, 1e9)) == {}
    freed = next(iter(first))
    ledger = scheduler.cluster.ledger("a")
    scheduler.claim("a", [each for each in ledger.claims.values() if each.name != freed])
    scheduler.apply(f"PodFact uid-{freed}", Gone(), NOW)
    assert decided(scheduler, Now(30.0, 1e9)) == {}, "the claim still has its device"
    scheduler.apply(key_of(claim(f"c{freed[1:]}")), claim(f"c{freed[1:]}"), NOW)
    (last,) = decided(scheduler, Now(40.0, 1e9)).values()
    assert last[1][0].results == first[freed][1][0].results


def test_a_decision_that_is_taken_back_frees_its_devices() -> None:
    scheduler = scheduler_with(node("a"), gpu_class(), gpus("a", 1), claim("one"), using("p", "one"))
    for _ in range(3):
        ((fact, placement, _),) = scheduler.round(NOW).placed
        assert names(placement.devices) == [["gpu-0"]]
        scheduler.release(placement.node, fact.uid)


def test_the_pods_of_a_gang_share_a_claim_that_none_of_them_has_yet() -> None:
    group = PodGroupFact(key="ns/g", min_member=2, admitted=True, phase="Inqueue")
    pods = [using(name, "shared", gang="g") for name in ("x", "y")]
    scheduler = scheduler_with(
        node("a"), node("b"), gpu_class(), gpus("a", 1), gpus("b", 1), claim("shared"), group, *pods
    )
    found = decided(scheduler)
    assert found.keys() == {"x", "y"}
    assert len({where for where, _ in found.values()}) == 1
    assert sorted(names(devices)[0] for _, devices in found.values()) == [[], ["gpu-0"]]


def test_a_gang_that_lacks_one_device_takes_none() -> None:
    group = PodGroupFact(key="ns/g", min_member=3, admitted=True, phase="Inqueue")
    pods = [using(name, name, gang="g") for name in ("x", "y", "z")]
    claims = [claim(name) for name in ("x", "y", "z")]
    scheduler = scheduler_with(node("a"), node("b"), gpu_class(), gpus("a", 1), gpus("b", 1), group, *claims, *pods)
    assert decided(scheduler) == {}
    scheduler.apply("more", using("single", "alone"), NOW)
    scheduler.apply("claim", claim("alone", 1), NOW)
    assert decided(scheduler).keys() == {"single"}


@pytest.mark.parametrize(
    ("missing", "later", "message"),
    [
        ("claim", claim("one"), "ResourceClaim one does not exist"),
        ("class", gpu_class(), "there is no DeviceClass gpu"),
        ("slice", gpus("a", 1), "no device that matches request r"),
    ],
)
def test_a_pod_is_tried_again_when_what_it_waits_for_appears(missing: str, later: Any, message: str) -> None:
    facts = {"claim": claim("one"), "class": gpu_class(), "slice": gpus("a", 1)}
    del facts[missing]
    scheduler = scheduler_with(node("a"), *facts.values(), using("p", "one"))
    assert decided(scheduler) == {}
    assert message in scheduler.explain("uid-p", NOW).message
    scheduler.apply(key_of(later), later, NOW)
    assert decided(scheduler, Now(20.0, 1e9)).keys() == {"p"}


def test_a_pod_waits_for_the_claim_of_its_template() -> None:
    waits = using("p", "", template="t")
    scheduler = scheduler_with(node("a"), gpu_class(), gpus("a", 1), waits)
    assert decided(scheduler) == {}
    assert "the ResourceClaim of template t is not created yet" in scheduler.explain("uid-p", NOW).message
    made = claim("p-c0", owner="uid-p")
    scheduler.apply(key_of(made), made, NOW)
    scheduler.apply(key_of(waits), replace(waits, device_claims=(PodDeviceClaim("c0", "ns/p-c0", "t"),)), NOW)
    assert decided(scheduler, Now(20.0, 1e9)).keys() == {"p"}


def test_a_claim_that_another_pod_owns_is_not_used() -> None:
    made = claim("p-c0", owner="uid-other")
    scheduler = scheduler_with(node("a"), gpu_class(), gpus("a", 1), made, using("p", "p-c0", template="t"))
    assert decided(scheduler) == {}
    assert "is not owned by the pod" in scheduler.explain("uid-p", NOW).message


def test_a_claim_made_anew_has_none_of_what_was_decided_for_its_predecessor() -> None:
    scheduler = scheduler_with(node("a"), gpu_class(), gpus("a", 2), claim("one"), using("old", "one"))
    assert names(decided(scheduler)["old"][1]) == [["gpu-0"]]
    scheduler.apply(key_of(using("old")), Gone(), NOW)  # its claim is in the ledger until the next write
    again, pod = replace(claim("one"), uid="uid-again"), using("new", "one")
    for fact in (again, pod):
        scheduler.apply(key_of(fact), fact, NOW)
    assert names(decided(scheduler)["new"][1]) == [["gpu-1"]]


def test_a_pod_follows_the_devices_that_its_claim_has() -> None:
    has = allocated(claim("one"), [("b", "gpu-0")], "other")
    scheduler = scheduler_with(node("a"), node("b"), gpu_class(), gpus("a", 1), gpus("b", 1), has, using("p", "one"))
    assert decided(scheduler) == {"p": ("b", (DeviceClaim("ns/one", "uid-one"),))}


def test_the_message_counts_each_node_under_why_it_has_no_devices() -> None:
    used = allocated(claim("used"), [("full", "gpu-0")], "other")
    of_model = gpu_class(expression='device.attributes["gpu.example.com"].model == "a"')
    scheduler = scheduler_with(
        node("none"), node("full"), node("other"), of_model,
        gpus("full", 1), gpus("other", 1, model="b"), used, claim("one"), using("p", "one"),
    )  # fmt: skip
    message = scheduler.explain("uid-p", NOW).message
    assert "2 node(s) had no device that matches request r (gpu)" in message
    assert "1 node(s) had too few free devices for request r (gpu)" in message


def test_what_was_chosen_belongs_to_the_claims_in_their_order() -> None:
    devices = scheduler_with(claim("one"), claim("two")).cluster.allocator.devices
    claims = [DeviceClaim("ns/one"), DeviceClaim("ns/two")]
    chosen = [DeviceClaim("", node="a"), DeviceClaim("", node="b")]
    found = devices.decided(claims, chosen)
    assert [(each.key, each.uid, each.node) for each in found] == [
        ("ns/one", "uid-one", "a"),
        ("ns/two", "uid-two", "b"),
    ]
    assert devices.decided(claims, ()) == ()
    with pytest.raises(ValueError, match="zip"):
        devices.decided(claims, chosen[:1])


@pytest.mark.parametrize("policy", ["", "binpack"])
def test_devices_with_binding_conditions_are_given_last(policy: str) -> None:
    """Without a policy pools of which a device has some come last, as in Kubernetes; with one the devices do."""
    slice_of = gpus("a", 2)
    first, second = slice_of.spec.devices
    mixed = replace(slice_of, spec=replace(slice_of.spec, devices=(replace(first, **CONDITIONS), second)))
    pool = replace(slice_of.spec.pool, name="z")
    other = replace(slice_of, name="z", spec=replace(slice_of.spec, pool=pool, devices=(replace(first, name="z-0"),)))
    claims = [claim(name) for name in ("one", "two", "three")]
    scheduler = Scheduler("s")
    scheduler.configure(replace(default_conf(), dra=True, policy=policy))
    for fact in (node("a"), gpu_class(), mixed, other, *claims):
        scheduler.apply(key_of(fact), fact, NOW)
    scheduler.begin()
    given = []
    for at, each in enumerate(claims):
        scheduler.apply(f"p{at}", using(f"p{at}", each.key.removeprefix("ns/")), NOW)
        given += names(decided(scheduler)[f"p{at}"][1])
    assert sorted(given[:2]) == [["gpu-1"], ["z-0"]] if policy else given == [["z-0"], ["gpu-0"], ["gpu-1"]]
    assert len(given) == 3


def test_a_claim_whose_binding_failed_is_left_to_those_who_have_it() -> None:
    failed = attaching(allocated(claim("one"), [("a", "gpu-0")], "other"), "Failed")
    scheduler = scheduler_with(node("a"), gpu_class(), gpus("a", 1), failed, using("p", "one"))
    assert decided(scheduler) == {}
    text = "ResourceClaim one: device gpu.example.com/a/gpu-0 has the condition 'Failed' (Because: it is so)"
    assert text in scheduler.explain("uid-p", NOW).message
    scheduler.apply(key_of(failed), replace(failed, reserved_for=(), reserved_names=()), NOW)
    assert "p" in decided(scheduler), "the binder takes its devices away"


@pytest.mark.parametrize("amount", ["bogus", "", "1e99999", "9" * 65])
def test_a_device_of_which_a_share_cannot_be_read_is_wholly_in_use(amount: str) -> None:
    other = sharing(claim("other"), "a", "gpu-0", {"memory": amount})
    scheduler = scheduler_with(node("a"), gpu_class(), gpus("a", 2), other, claim("one"), claim("two"))
    for name in ("one", "two"):
        scheduler.apply(name, using(name, name), NOW)
    assert [names(devices) for _, devices in decided(scheduler).values()] == [[["gpu-1"]]]
    scheduler.apply(key_of(other), Gone(), NOW)
    assert [names(devices) for _, devices in decided(scheduler, Now(20.0, 1e9)).values()] == [[["gpu-0"]]]


MODEL = f'device.attributes["{DRIVER}"]'


@pytest.mark.parametrize(
    ("expression", "fits"),
    [
        (f'{MODEL}.model in ["a", "b"]', True),
        (f"// the vendor's\n{MODEL}.model == 'a' // don't use others", True),
        (f"// attributes of the vendor's cards\n{MODEL}.model == 'b' // don't use others", False),
        (f'!("mod" + "el" in {MODEL}) || "device.attributes.a.b" == ""', False),
        (f'{MODEL} == {{}} && "device.attributes.a.b" != ""', False),
        (f'"""it is "a" """ != "" && {MODEL}.model == "a"', True),
    ],
)
def test_an_expression_sees_what_it_may_look_at(
    monkeypatch: pytest.MonkeyPatch, expression: str, *, fits: bool
) -> None:
    """All attributes are apart."""
    monkeypatch.setattr(slice_kinds, "MAX_VALUES", 0)
    exactly = {"deviceClassName": "gpu", "selectors": [{"cel": {"expression": expression}}]}
    one = claim("one", spec={"devices": {"requests": [{"name": "r", "exactly": exactly}]}})
    scheduler = scheduler_with(node("a"), gpus("a", 2), gpu_class(), one, using("p", "one"))
    assert ("p" in decided(scheduler)) == fits, scheduler.explain("uid-p", NOW).message
