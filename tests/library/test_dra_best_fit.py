"""Claims for partitions of A100 on several nodes, by each policy: every allocation is valid, and best fit is best.

The opposite is the sum of counters, and the checker of ``support.plain_devices``, on the objects as they are in JSON.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from random import Random
from typing import Any

import msgspec
import pytest
from deviceshare.allocation import Allocator, Placement
from deviceshare.conf import default_conf
from deviceshare.families.dra.cel import evaluator
from deviceshare.families.dra.cluster_devices import FEATURES
from deviceshare.families.dra.selectors import Selectors
from deviceshare.model import DeviceClaim, DeviceResult, NodeFact, Tenant, parse_quantity
from deviceshare.model.device_objects import Device
from deviceshare_lab.clusters.facts import make_request
from deviceshare_lab.clusters.slices import PROFILES, claim, claiming, classes, slices
from msgspec.structs import replace
from support.plain_devices import Checker

Json = dict[str, Any]
NODES = ["a", "b", "c"]
SELECTORS = Selectors(evaluator())
SIZES = {each.name: max(each.amounts[0] / 98, each.slices / 8) for each in PROFILES}
"""The largest part of a card's counters that a partition takes."""


class Cluster:
    """Nodes with four cards each, and what runs on them."""

    def __init__(self, policy: str, nodes: list[str]) -> None:
        conf = replace(default_conf(), dra=True, policy=policy, nodeorder=None, binpack=None)
        self.allocator = Allocator(conf)
        self.objects = [each for node in nodes for each in slices("a100-mig", node)]
        for fact in (*classes(), *self.objects):
            self.allocator.devices.put(fact)
        for node in nodes:
            self.allocator.set_node(NodeFact(name=node, allocatable={"cpu": 1000, "pods": 1000}))
        self.held: dict[str, tuple[str, tuple[DeviceResult, ...]]] = {}
        self.left: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        """By pool and counter set."""
        self.devices: dict[tuple[str, str], Json] = {}
        for spec in (msgspec.to_builtins(each.spec) for each in self.objects):
            node = spec["nodeName"]
            for counters in spec.get("sharedCounters", ()):
                for name, value in counters["counters"].items():
                    self.left[node, counters["name"]][name] = int(parse_quantity(value["value"]))
            self.devices |= {(node, device["name"]): device for device in spec.get("devices", ())}

    def place(self, name: str, profile: str, count: int = 1) -> Placement | None:
        """Place a pod with a claim of its own; '' asks for whole cards."""
        fact = claim(f"ns/{name}", f"pod-{name}", profile, count)
        self.allocator.devices.put(fact)
        request = replace(make_request({"cpu": 1}), devices=self.allocator.devices.requests(claiming(fact)))
        placement = self.allocator.place(request)
        if placement is not None:
            self.check(fact, placement)
            self.allocator.take(name, placement, Tenant(devices=(DeviceClaim(fact.key),)))
            self.held[name] = placement.node, placement.devices[0].results
            self.count(placement.node, placement.devices[0].results, -1)
        return placement

    def check(self, fact: Any, placement: Placement) -> None:
        """Check the devices of a placement beside those that others hold."""
        results = [
            [{"request": each.request, "driver": each.driver, "pool": each.pool, "device": each.device}]
            for each in placement.devices[0].results
        ]
        state = [
            {"driver": each.driver, "pool": each.pool, "device": each.device}
            for _, of_pod in self.held.values()
            for each in of_pod
        ]
        case = {
            "features": sorted(FEATURES),
            "nodes": [{"metadata": {"name": node}} for node in NODES],
            "slices": [
                {"metadata": {"name": each.name}, "spec": msgspec.to_builtins(each.spec)} for each in self.objects
            ],
            "deviceClasses": [
                {"metadata": {"name": each.name}, "spec": msgspec.to_builtins(each.spec)} for each in classes()
            ],
            "allocatedState": {"devices": state},
        }

        def matches(expression: str, driver: str, device: Json) -> bool:
            return SELECTORS.matches(expression, driver, msgspec.convert(device, Device), True) is True

        asked = {"metadata": {"name": "c"}, "spec": {"devices": msgspec.to_builtins(fact.devices)}}
        for devices in asked["spec"]["devices"]["requests"]:
            devices["exactly"] = {"allocationMode": "ExactCount", "count": 1, **devices["exactly"]}
        Checker(case, placement.node, matches).check([asked], [[one for each in results for one in each]])

    def count(self, node: str, results: tuple[DeviceResult, ...], sign: int) -> None:
        for each in results:
            for key, name, amount in self.needs(node, each.device):
                self.left[key][name] += sign * amount

    def needs(self, node: str, device: str) -> Iterator[tuple[tuple[str, str], str, int]]:
        """Yield what a device consumes."""
        for use in self.devices[node, device]["consumesCounters"]:
            for name, value in use["counters"].items():
                yield (node, use["counterSet"]), name, int(parse_quantity(value["value"]))

    def fits(self, node: str, device: str) -> bool:
        return all(self.left[key][name] >= amount for key, name, amount in self.needs(node, device))

    def leave(self, name: str) -> None:
        node, results = self.held.pop(name)
        self.allocator.release(node, name)
        self.count(node, results, 1)

    def with_profile(self, profile: str) -> list[tuple[str, str]]:
        return [
            key
            for key, device in self.devices.items()
            if device["attributes"].get("profile", {}).get("string", "") == profile
        ]

    def room(self, node: str, card: str) -> float:
        """Return how much of all profiles a card has room for, each weighed by its size."""
        found = 0.0
        for profile in ("", *SIZES):
            places = [
                name for of_node, name in self.with_profile(profile) if of_node == node and f"{name}-".startswith(card)
            ]
            found += SIZES.get(profile, 1.0) * sum(self.fits(node, name) for name in places) / len(places)
        return found


@pytest.mark.parametrize("policy", ["", "binpack", "spread", "fragmentation"])
@pytest.mark.parametrize("seed", range(2))
def test_allocations_are_valid_and_no_claim_waits_in_vain(policy: str, seed: int) -> None:
    rng, cluster, refused = Random(seed), Cluster(policy, NODES), 0
    for number in range(90):
        cluster.allocator.devices.begin_round()
        profile = rng.choice(["", *SIZES])
        if cluster.place(f"p{number}", profile) is None:
            refused += 1
            assert not any(cluster.fits(node, name) for node, name in cluster.with_profile(profile))
        if cluster.held and rng.random() < 0.4:
            cluster.leave(rng.choice(sorted(cluster.held)))
    assert refused > 3
    assert cluster.held


@pytest.mark.parametrize("seed", range(3))
def test_the_device_makes_the_fewest_others_impossible(seed: int) -> None:
    rng, cluster = Random(seed), Cluster("fragmentation", ["a"])
    for number in range(25):
        cluster.allocator.devices.begin_round()
        profile, losses = rng.choice(list(SIZES)), {}
        for node, name in cluster.with_profile(profile):
            if cluster.fits(node, name):
                card = name.partition("-mig-")[0] + "-"
                before, result = cluster.room(node, card), DeviceResult("", "", node, name)
                cluster.count(node, (result,), -1)
                losses[name] = before - cluster.room(node, card)
                cluster.count(node, (result,), 1)
        placement = cluster.place(f"p{number}", profile)
        if placement is not None:
            (given,) = placement.devices[0].results
            assert losses[given.device] == pytest.approx(min(losses.values()))
        if cluster.held and rng.random() < 0.4:
            cluster.leave(rng.choice(sorted(cluster.held)))


def test_policies_choose_nodes() -> None:
    """Two pods with a whole card each: on one node where nodes are packed, on two where pods are spread."""
    for policy, nodes in (("binpack", 1), ("spread", 2)):
        cluster = Cluster(policy, NODES)
        places = [cluster.place(name, "") for name in "xy"]
        assert len({each.node for each in places if each is not None}) == nodes, policy
