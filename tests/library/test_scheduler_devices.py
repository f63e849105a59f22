"""The scheduler places pods with ResourceClaims: on which nodes, with which devices, and when it tries again."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deviceshare.allocation import device_filter
from deviceshare.families.dra import cluster_devices, slice_kinds
from deviceshare.families.dra.cluster_devices import FEATURES
from deviceshare.families.dra.codec import without_nulls
from deviceshare.model import (
    DeviceClaim,
    DeviceClaimFact,
    DeviceSliceFact,
    Gone,
    NodeFact,
    Now,
    PodDeviceClaim,
    PodGroupFact,
)
from deviceshare.objects.devices import decode_device_claim, decode_device_class, decode_device_slice
from deviceshare.scheduler import Scheduler
from msgspec.structs import replace
from support.builders import node
from support.devices import (
    DRIVER,
    NOW,
    allocated,
    claim,
    count_steps,
    gpu_class,
    gpus,
    key_of,
    scheduler_with,
    sharing,
    using,
)

ALL = FEATURES | {"DeviceBindingAndStatus"}
DATA = Path(__file__).parents[1] / "data" / "dra"
Json = dict[str, Any]


def decided(scheduler: Scheduler, now: Now = NOW) -> dict[str, tuple[str, tuple[DeviceClaim, ...]]]:
    """Decide a round, and let all of its decisions stand; return node and ResourceClaims by pod."""
    found = {}
    for fact, placement, decision in scheduler.round(now).placed:
        made = scheduler.new_claim(f"claim-{fact.uid}", fact, placement, decision, now)
        known = scheduler.cluster.ledger(placement.node).claims.values()
        scheduler.claim(placement.node, [*known, made])
        found[fact.name] = placement.node, made.devices
    return found


def names(claims: tuple[DeviceClaim, ...]) -> list[list[str]]:
    return [[each.device for each in of_claim.results] for of_claim in claims]


# Recorded answers


def recorded() -> Iterator[tuple[Json, Json]]:
    """Yield the recorded cases in which exactly those features are on that are supported, and binding conditions."""
    for name in ("random", "changed"):
        with gzip.open(DATA / f"dra-{name}.jsonl.gz", "rt") as file:
            for line in file:
                entry = json.loads(line)
                if frozenset(entry["case"]["features"]) == ALL:
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
    monkeypatch.setattr(cluster_devices, "FEATURES", ALL)
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


def test_nodes_with_equal_devices_are_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = count_steps(monkeypatch)
    nodes: list[NodeFact] = [node(f"n{at}") for at in range(60)]
    slices = [gpus(each.name, 4) for each in nodes]
    pods = [using(f"p{at}", f"c{at}", template="t") for at in range(30)]
    claims = [claim(f"c{at}", owner=f"uid-p{at}") for at in range(30)]
    scheduler = scheduler_with(*nodes, *slices, gpu_class(), *claims, *pods)
    found = decided(scheduler)
    assert len(found) == 30
    assert len(asked) == 5, "once for each number of devices in use"
    taken = [each.id for _, devices in found.values() for of_claim in devices for each in of_claim.results]
    assert len(set(taken)) == 30


def test_the_searches_of_a_round_for_one_class_have_a_limit_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """A claim of 9 requests that differ, on nodes with 8 devices each that differ, has 8! orders on each node."""
    tried = count_steps(monkeypatch)
    by_uuid = [{"cel": {"expression": 'device.attributes["gpu.example.com"].uuid != "x"'}}]
    exactly = {"deviceClassName": "gpu", "count": 1, "selectors": by_uuid}
    requests = [{"name": f"r{at}", "exactly": exactly} for at in range(9)]
    hard = claim("hard", spec={"devices": {"requests": requests}})
    nodes: list[NodeFact] = [node(f"n{at}") for at in range(6)]
    slices = [gpus(each.name, 8) for each in nodes]
    scheduler = scheduler_with(*nodes, *slices, gpu_class(), hard, using("p", "hard"))
    most = cluster_devices.ROUND_STEPS + len(nodes) * (device_filter.NODE_STEPS + 1)
    for at in range(8):
        assert decided(scheduler, Now(20.0 * (1 + at), 1e9)) == {}
        message = scheduler.explain("uid-p", NOW).message
        assert sum(tried) <= most, at
        if not at:
            assert "5 node(s) were not searched to the end" in message
        tried.clear()
        hard = replace(hard, revision=f"{at}")
        scheduler.apply(key_of(hard), hard, NOW)
    assert "6 node(s) have no answer after 20000 devices that were tried" in message


def test_a_claim_that_takes_the_first_devices_is_answered_on_every_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_devices, "ROUND_STEPS", 0)
    nodes: list[NodeFact] = [node(f"n{at}") for at in range(5)]
    slices = [gpus(each.name, 8 + at) for at, each in enumerate(nodes)]
    claims = [claim(f"c{at}", 8) for at in range(6)]
    pods = [using(f"p{at}", f"c{at}") for at in range(6)]
    scheduler = scheduler_with(*nodes, *slices, gpu_class(), *claims, *pods)
    assert len(decided(scheduler)) == 5


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


def test_devices_with_binding_conditions_are_not_used() -> None:
    slice_of = gpus("a", 2)
    first, second = slice_of.spec.devices
    waits = replace(first, binding_conditions=("ready",))
    some = replace(slice_of, spec=replace(slice_of.spec, devices=(waits, second)))
    scheduler = scheduler_with(node("a"), gpu_class(), some, claim("one"), claim("two"), using("p", "one"))
    assert names(decided(scheduler)["p"][1]) == [["gpu-1"]]
    scheduler.apply("q", using("q", "two"), NOW)
    assert decided(scheduler, Now(20.0, 1e9)) == {}
    alone = replace(slice_of, spec=replace(slice_of.spec, devices=(waits,)))
    refused = scheduler_with(node("a"), gpu_class(), alone, claim("one"), using("p", "one"))
    assert (
        "no device without binding conditions, which are not served, for request r (gpu)"
        in refused.explain("uid-p", NOW).message
    )


@pytest.mark.parametrize("amount", ["bogus", "", "1e99999", "9" * 65])
def test_a_device_of_which_a_share_cannot_be_read_is_wholly_in_use(amount: str) -> None:
    other = sharing(claim("other"), "a", "gpu-0", {"memory": amount})
    scheduler = scheduler_with(node("a"), gpu_class(), gpus("a", 2), other, claim("one"), claim("two"))
    for name in ("one", "two"):
        scheduler.apply(name, using(name, name), NOW)
    assert [names(devices) for _, devices in decided(scheduler).values()] == [[["gpu-1"]]]
    scheduler.apply(key_of(other), Gone(), NOW)
    assert [names(devices) for _, devices in decided(scheduler, Now(20.0, 1e9)).values()] == [[["gpu-0"]]]


def hard_claim(name: str) -> DeviceClaimFact:
    """Return a claim for more devices than a node has, in requests to which each device may belong."""
    by_uuid = [{"cel": {"expression": f'device.attributes["gpu.example.com"].uuid != "{name}"'}}]
    exactly = {"deviceClassName": "gpu", "count": 1, "selectors": by_uuid}
    return claim(name, spec={"devices": {"requests": [{"name": f"r{at}", "exactly": exactly} for at in range(9)]}})


def test_the_searches_of_all_classes_have_a_limit_in_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = count_steps(monkeypatch)
    names_of = [f"hard{at}" for at in range(12)]
    pods = [using(f"p-{name}", name) for name in names_of]
    scheduler = scheduler_with(node("n"), gpus("n", 8), gpu_class(), *map(hard_claim, names_of), *pods)
    assert decided(scheduler) == {}
    assert len(tried) == len(names_of)
    assert sum(tried) <= cluster_devices.ROUND_STEPS + len(names_of) * (device_filter.NODE_STEPS + 1)


def test_nodes_for_which_a_round_had_no_time_are_searched_again_after_a_pause() -> None:
    nodes: list[NodeFact] = [node(f"n{at}") for at in range(6)]
    slices = [gpus(each.name, 8) for each in nodes]
    scheduler = scheduler_with(*nodes, *slices, gpu_class(), hard_claim("hard"), using("p", "hard"))
    now, pauses = NOW, []
    while True:
        assert decided(scheduler, now) == {}
        due = min(scheduler.rounds_due(now), default=None)
        if "6 node(s) have no answer" in scheduler.explain("uid-p", now).message:
            break
        assert due is not None
        pauses.append(due - now.monotonic)
        now = Now(due, now.wall)
    assert [each for each in pauses if each][:3] == [1.0, 2.0, 4.0]


@pytest.mark.parametrize(
    "expression",
    [
        f'device.attributes["{DRIVER}"].uuid == "n7-2"',
        f'device.attributes["{DRIVER}"].exists(name, device.attributes["{DRIVER}"][name] == "n7-2")',
    ],
)
def test_a_claim_for_one_device_does_not_change_the_search_for_others(
    monkeypatch: pytest.MonkeyPatch, expression: str
) -> None:
    """The uuids of devices are apart: they differ on all nodes."""
    monkeypatch.setattr(slice_kinds, "MAX_VALUES", 2)
    nodes: list[NodeFact] = [node(f"n{at}") for at in range(12)]
    scheduler = scheduler_with(*nodes, *(gpus(each.name, 3) for each in nodes), gpu_class())
    devices = scheduler.cluster.allocator.devices
    exactly = {"deviceClassName": "gpu", "selectors": [{"cel": {"expression": expression}}]}
    one = claim("one", spec={"devices": {"requests": [{"name": "r", "exactly": exactly}]}})
    for fact in (one, using("p", "one")):
        scheduler.apply(key_of(fact), fact, NOW)
    where, found = decided(scheduler)["p"]
    assert (where, names(found)) == ("n7", [["gpu-2"]])
    assert len({devices.seen(row).layout for row in range(12)}) == 1
    tried = count_steps(monkeypatch)
    for fact in (claim("plain"), using("q", "plain")):
        scheduler.apply(key_of(fact), fact, NOW)
    assert "q" in decided(scheduler)
    assert len(tried) == 2, "once for the node with a device in use, once for the others"


def test_a_claim_for_one_device_waits_with_the_reasons_of_all_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round reads the attributes of some nodes; the others follow after a pause."""
    monkeypatch.setattr(slice_kinds, "MAX_VALUES", 2)
    monkeypatch.setattr(cluster_devices, "ROUND_STEPS", 10 * device_filter.WHOLE_STEPS)
    nodes: list[NodeFact] = [node(f"n{at}") for at in range(24)]
    one = claim("one", spec=of_uuid("none"))
    scheduler = scheduler_with(*nodes, *(gpus(each.name, 3) for each in nodes), gpu_class(), one, using("p", "one"))
    now, rounds = NOW, 0
    while "24 node(s) had no device that matches request r" not in scheduler.explain("uid-p", now).message:
        assert decided(scheduler, now) == {}
        rounds += 1
        due = min(scheduler.rounds_due(now), default=None)
        assert due is not None, scheduler.explain("uid-p", now).message
        now = Now(max(due, now.monotonic), now.wall)
    assert rounds >= 3, "5 nodes a round at most"


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


def test_hard_claims_for_single_devices_end_and_leave_time_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slice_kinds, "MAX_VALUES", 2)
    monkeypatch.setattr(device_filter, "MAX_STEPS", 500)
    monkeypatch.setattr(cluster_devices, "ROUND_STEPS", 1000)
    nodes: list[NodeFact] = [node(f"n{at}") for at in range(3)]
    claims = [hard_claim(f"h{at}") for at in range(12)]
    pods = [using(f"p{at}", f"h{at}") for at in range(12)]
    scheduler = scheduler_with(*nodes, *(gpus(each.name, 8) for each in nodes), gpu_class(), *claims, *pods)
    one = claim("one", spec=of_uuid("n1-3"))
    for fact in (one, using("p", "one")):
        scheduler.apply(key_of(fact), fact, NOW)
    assert any("p" in decided(scheduler, Now(20.0 * (1 + at), 1e9)) for at in range(8))
    for at in range(8, 60):
        decided(scheduler, Now(20.0 * (1 + at), 1e9))
    assert "were not searched to the end" not in scheduler.explain("uid-p0", NOW).message


def test_nodes_that_were_postponed_are_searched_before_those_that_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """In each round more nodes change than a round may search."""
    monkeypatch.setattr(slice_kinds, "MAX_VALUES", 2)
    monkeypatch.setattr(cluster_devices, "ROUND_STEPS", 10 * device_filter.WHOLE_STEPS)
    nodes: list[NodeFact] = [node(f"n{at:02d}") for at in range(24)]
    scheduler = scheduler_with(
        *nodes,
        *(gpus(each.name, 3) for each in nodes),
        gpu_class(),
        claim("one", spec=of_uuid("n04-2")),
        using("p", "one"),
    )
    rounds = 0
    while "p" not in decided(scheduler, Now(100.0 * (1 + rounds), 1e9)):
        rounds += 1
        assert rounds < 24
        for at in range(12, 24):
            changed = gpus(f"n{at:02d}", 3, generation=1 + rounds)
            scheduler.apply(key_of(changed), changed, NOW)


def test_the_chosen_node_is_searched_once_more_for_a_claim_for_one_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slice_kinds, "MAX_VALUES", 2)
    tried = count_steps(monkeypatch)
    nodes: list[NodeFact] = [node(f"n{at}") for at in range(4)]
    facts = [*(gpus(each.name, 3) for each in nodes), gpu_class(), claim("one", spec=of_uuid("n2-1"))]
    assert decided(scheduler_with(*nodes, *facts, using("p", "one")))["p"][0] == "n2"
    assert len(tried) == len(nodes) + 1


def of_uuid(uuid: str) -> Json:
    selectors = [{"cel": {"expression": f'device.attributes["{DRIVER}"].uuid == "{uuid}"'}}]
    return {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", "selectors": selectors}}]}}


def test_a_waiting_claim_is_searched_anew_when_no_more_attributes_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """The attribute that it names is apart, since its name came after too many others."""
    monkeypatch.setattr(slice_kinds, "MAX_NAMES", 2)
    scheduler = scheduler_with(node("a"), gpu_class(), claim("one", spec=of_uuid("a-1")), using("p", "one"))
    others = {"name": "x", "attributes": {name: {"string": "1"} for name in ("one", "two")}}
    assert decided(scheduler) == {}
    for fact in (node("b"), with_devices("b", others)):
        scheduler.apply(key_of(fact), fact, NOW)
    assert decided(scheduler) == {}
    late = gpus("a", 2)
    scheduler.apply(key_of(late), late, NOW)
    assert decided(scheduler)["p"][0] == "a"


def with_devices(name: str, *devices: Json) -> DeviceSliceFact:
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": devices}
    return decode_device_slice(json.dumps({"metadata": {"name": f"{name}-others"}, "spec": spec}).encode())


def test_a_claim_may_name_an_attribute_that_nothing_named_before() -> None:
    """The uuids of devices are kept once for nodes that are equal but for them."""
    scheduler = scheduler_with(node("a"), node("b"), gpus("a", 3), gpus("b", 3), gpu_class())
    one = claim("one", spec=of_uuid("b-2"))
    for fact in (one, using("p", "one")):
        scheduler.apply(key_of(fact), fact, NOW)
    where, devices = decided(scheduler)["p"]
    assert (where, names(devices)) == ("b", [["gpu-2"]])
