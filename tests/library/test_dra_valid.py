"""Every allocation of devices is valid by an independent check, in recorded clusters and in changed ones."""

import gzip
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from deviceshare.families.dra.best_fit import NO_ORDER, DeviceOrder, device_order
from deviceshare.families.dra.cel import evaluator
from deviceshare.families.dra.codec import without_nulls
from deviceshare.families.dra.errors import AllocationError
from deviceshare.families.dra.pools import Features, Place
from deviceshare.families.dra.selectors import Selectors
from deviceshare.families.dra.solver import Given
from deviceshare.model import format_quantity
from deviceshare.model.device_objects import Device, DeviceClass, ResourceClaim, ResourceSlice
from deviceshare.policies import CARD_POLICIES
from deviceshare_lab.conformance.devices.command import used_by
from support.devices import solve
from support.plain_devices import Checker, Invalid, Json

DATA = Path(__file__).parents[1] / "data" / "dra"
SELECTORS = Selectors(evaluator())
ORDERS = [device_order(CARD_POLICIES[name], CARD_POLICIES[name]) for name in ("binpack", "spread", "fragmentation")]


@cache
def recorded(name: str) -> list[Json]:
    """Return the recorded cases without derived attributes."""
    with gzip.open(DATA / f"dra-{name}.jsonl.gz", "rt") as file:
        found = [without_nulls(json.loads(each)) for each in file]
    return [each for each in found if "DerivedAttributes" not in each["case"]["features"]]


def checker(case: Json, node: str) -> Checker:
    multiple = "ConsumableCapacity" in case["features"]

    def matches(expression: str, driver: str, device: Json) -> bool:
        return SELECTORS.matches(expression, driver, msgspec.convert(device, Device), multiple) is True

    return Checker(case, node, matches)


def answers(recorded: Json) -> Iterator[tuple[str, list[list[Json]]]]:
    """Yield the recorded results of the claims for each node on which they fit."""
    for node, answer in recorded["answer"]["nodes"].items():
        if answer["fits"]:
            yield node, [each["devices"].get("results", []) for each in answer.get("allocations", ())]


@pytest.mark.parametrize(("name", "least"), [("upstream", 150), ("random", 150), ("generated", 80)])
def test_the_answers_of_kubernetes_are_valid(name: str, least: int) -> None:
    checked = 0
    for each in recorded(name):
        for node, results in answers(each):
            checker(each["case"], node).check(each["case"]["claims"], results)
            checked += 1
    assert checked > least


def test_another_device_is_not_valid() -> None:
    """Replace a device of each recorded answer by one that another claim uses, or one that the claim has already."""
    found = 0
    for each in recorded("random"):
        for node, results in answers(json.loads(json.dumps(each))):
            check = checker(each["case"], node)
            taken = sorted(check.dedicated & set(check.devices))
            if not results or not results[0] or results[0][0].get("adminAccess") or not taken:
                continue
            driver, pool, device = taken[0]
            results[0][0].update(driver=driver, pool=pool, device=device)
            with pytest.raises(Invalid):
                check.check(each["case"]["claims"], results)
            found += 1
    assert found > 20


def changed(case: Json, random: Random) -> Json:
    """Return another cluster: fewer allocated claims, other numbers, modes, orders, taints and groups."""
    found: Json = json.loads(json.dumps(case))
    keep = random.random()
    allocated = [each for each in found["allocatedClaims"] if random.random() < keep]
    found["allocatedClaims"] = allocated
    found["allocatedState"] = {}
    claims = random.choices(found["claims"], k=random.randint(1, 3))
    found["claims"] = json.loads(json.dumps(claims))
    for request in (each for claim in found["claims"] for each in claim["spec"]["devices"]["requests"]):
        for asked in [request.get("exactly"), *request.get("firstAvailable", ())]:
            if asked is None:
                continue
            chance = random.random()
            if chance < 0.5:
                asked.update(allocationMode="ExactCount", count=random.randint(1, 4))
            elif chance < 0.6:
                asked.pop("count", None)
                asked["allocationMode"] = "All"
            elif chance < 0.7 and "firstAvailable" not in request and "AdminAccess" in found["features"]:
                asked["adminAccess"] = True
    grouped = "CompatibilityGroups" in found["features"] and random.random() < 0.5
    for device in (each for one in found["slices"] for each in one["spec"].get("devices", ())):
        if random.random() < 0.5:
            device.pop("taints", None)
        for use in device.get("consumesCounters", ()) if grouped else ():
            use["compatibilityGroups"] = random.choice((["a"], ["b"], ["a", "b"], []))
    random.shuffle(found["slices"])
    return found


def solved(case: Json, node: Json, order: DeviceOrder = NO_ORDER) -> list[list[Json]] | None:
    place = Place(
        node["metadata"]["name"],
        node["metadata"].get("labels", {}),
        frozenset(node.get("status", {}).get("declaredFeatures", ())),
    )
    classes = {each["metadata"]["name"]: msgspec.convert(each, DeviceClass) for each in case["deviceClasses"]}
    used = used_by(msgspec.convert(case["allocatedClaims"], list[ResourceClaim]))
    slices = msgspec.convert(case["slices"], list[ResourceSlice])
    claims = msgspec.convert(case["claims"], list[ResourceClaim])
    features = Features(frozenset(case["features"]))
    try:
        answer = solve(
            place, slices, classes, claims,
            used=used, features=features, selectors=SELECTORS, order=order, max_steps=2_000,
        ).claims  # fmt: skip
    except AllocationError:
        return None
    return None if answer is None else [[as_result(each) for each in of_claim] for of_claim in answer]


def as_result(given: Given) -> Json:
    driver, pool, device = given.device.candidate.id
    found: dict[str, Any] = {"request": given.request, "driver": driver, "pool": pool, "device": device}
    if given.exact.admin_access:
        found["adminAccess"] = True
    if given.device.shared:
        found["consumedCapacity"] = {name: format_quantity(amount) for name, amount in given.consumed.items()}
    return found


@pytest.mark.parametrize("seed", range(4))
def test_allocations_in_changed_clusters_are_valid(seed: int) -> None:
    random, fitting, other = Random(seed), 0, 0
    for each in recorded("random"):
        if not each["case"].get("allocatedClaims"):
            continue
        case = changed(each["case"], random)
        for node in case["nodes"]:
            if (results := solved(case, node)) is not None:
                checker(case, node["metadata"]["name"]).check(case["claims"], results)
                fitting += 1
            for order in ORDERS:
                best = solved(case, node, order)
                assert (best is None) == (results is None)
                if best is not None and results is not None:
                    checker(case, node["metadata"]["name"]).check(case["claims"], best)
                    assert names(best) == names(results), "the alternatives are those of Kubernetes"
                    other += best != results
    assert fitting > 30
    assert other > 5


@pytest.mark.parametrize("order", ORDERS)
def test_best_fit_fits_where_kubernetes_does(order: DeviceOrder) -> None:
    """Each node has devices for the generated claims if Kubernetes says so, valid ones, of the same alternatives."""
    other = 0
    for each in recorded("generated"):
        case, recorded_on = each["case"], dict(answers(each))
        for node in case["nodes"]:
            name = node["metadata"]["name"]
            best = solved(case, node, order)
            assert (best is not None) == (name in recorded_on), (case["id"], name)
            if best is not None:
                checker(case, name).check(case["claims"], best)
                assert names(best) == names(recorded_on[name]), (case["id"], name)
                other += [[r["device"] for r in of] for of in best] != [
                    [r["device"] for r in of] for of in recorded_on[name]
                ]
    assert other > 5


def names(results: list[list[Json]]) -> list[list[str]]:
    return [sorted(each["request"] for each in of_claim) for of_claim in results]
