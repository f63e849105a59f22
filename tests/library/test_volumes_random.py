"""The plugins for volumes on random clusters that change, against a plain reference.

``DEVICESHARE_VOLUME_CLUSTERS`` sets how many clusters are tried.
"""

import copy
import json
import os

import pytest
from deviceshare.allocation import Allocator
from deviceshare.conf import default_conf
from deviceshare.model import PodRequest, StorageFact
from deviceshare.objects import (
    decode_node,
    decode_pod,
    decode_storage_class,
    decode_volume,
    decode_volume_claim,
    decode_volume_limits,
)
from deviceshare.volumes import Binding, Limits, Restrictions, Zones
from msgspec.structs import replace
from support.plain_volumes import PlainStorage, binding, claims_of, reasons, rejections
from support.volume_clusters import CLAIMS, CLASSES, NAMESPACES, NODES, VOLUMES, Object, VolumeGenerator

CLUSTERS = int(os.environ.get("DEVICESHARE_VOLUME_CLUSTERS", "120"))
DECODERS = {
    "claims": decode_volume_claim,
    "volumes": decode_volume,
    "classes": decode_storage_class,
    "csi_nodes": decode_volume_limits,
}


class Both:
    """One cluster as the allocator and the reference know it."""

    def __init__(self, seed: int) -> None:
        self.make = VolumeGenerator(seed)
        self.allocator = Allocator(default_conf())
        self.plain = PlainStorage({}, {}, {}, {}, {}, {})
        self.decided = 0
        """Placements that bind volumes."""
        self.facts: dict[tuple[str, str], StorageFact] = {}
        for name in CLASSES[:-1]:
            self.put("classes", name, self.make.storage_class(name))
        for number in range(NODES):
            self.change_node(f"n{number}")
            self.change("csi_nodes", f"n{number}")
        for number in range(VOLUMES):
            self.change("volumes", f"v{number}")
        for number in range(2 * CLAIMS):
            self.change("claims", f"{NAMESPACES[number % 2]}/c{number // 2}")
        for number in range(8):
            self.change_pod(f"uid-p{number}")

    def put(self, kind: str, key: str, obj: Object | None) -> None:
        objects: dict[str, Object] = getattr(self.plain, kind)
        before = self.facts.pop((kind, key), None)
        objects.pop(key, None)
        if obj is not None:
            objects[key] = obj
            self.facts[kind, key] = fact = DECODERS[kind](json.dumps(obj).encode())
            assert not fact.problems
            self.allocator.volumes.put(fact)
        elif before is not None:
            self.allocator.volumes.drop(before)

    def change(self, kind: str, key: str) -> None:
        make = self.make
        if make.chance(0.1):
            self.put(kind, key, None)
            return
        match kind:
            case "volumes":
                obj = make.volume(key)
            case "csi_nodes":
                obj = make.csi_node(key)
            case "classes":
                obj = make.storage_class(key)
            case _:
                obj = make.claim(*key.split("/"))
        self.put(kind, key, obj)

    def change_node(self, name: str) -> None:
        if name in self.plain.nodes and self.make.chance(0.4):
            del self.plain.nodes[name]
            self.allocator.remove_node(name)
            return
        obj = self.plain.nodes[name] = self.make.node(name)
        self.allocator.set_node(decode_node(json.dumps(obj).encode()))

    def change_pod(self, uid: str) -> None:
        obj = self.plain.pods.pop(uid, None)
        if obj is not None:
            self.allocator.release(obj["spec"]["nodeName"], uid)
            return
        obj = self.make.pod(f"n{self.make.random.randint(0, NODES)}")
        uid = obj["metadata"]["uid"]
        if uid not in self.plain.pods:
            self.plain.pods[uid] = obj
            fact = decode_pod(json.dumps(obj).encode())
            self.allocator.hold(fact.node, uid, (), (), fact.tenant)
            for key, ephemeral in claims_of(obj):
                if ephemeral and self.make.chance(0.8):
                    # Of the claims of other pods only those that belong to them are looked at.
                    claim = self.make.claim(*key.split("/"))
                    owner = {"kind": "Pod", "name": "p", "uid": uid, "controller": True}
                    claim["metadata"]["ownerReferences"] = [owner]
                    self.put("claims", key, claim)

    def step(self) -> None:
        make = self.make.random
        kind = make.choice(("claims", "claims", "volumes", "volumes", "csi_nodes", "classes", "pod", "pod", "node"))
        if kind == "pod":
            self.change_pod(f"uid-p{make.randint(0, 11)}")
        elif kind == "node":
            self.change_node(f"n{make.randint(0, NODES)}")
        elif kind == "claims":
            self.change(kind, f"{make.choice(NAMESPACES)}/c{make.randint(0, CLAIMS)}")
        elif kind == "classes":
            self.change(kind, make.choice(CLASSES))
        else:
            name = f"v{make.randint(0, VOLUMES)}" if kind == "volumes" else f"n{make.randint(0, NODES)}"
            self.change(kind, name)

    def compare(self, obj: Object) -> None:
        fact = decode_pod(json.dumps(obj).encode())
        request = replace(fact.ask, claims=fact.volume_uses)
        known = self.allocator.volumes
        catalog, placed, labels = known.catalog, known.placed, known.labels
        restrictions, limits = Restrictions(request, catalog, placed), Limits(request, catalog, placed)
        volume_binding, zones = Binding(request, catalog, labels), Zones(request, catalog, labels)
        found = {
            "VolumeRestrictions": restrictions.rejection(),
            "VolumeBinding": volume_binding.rejection(),
            "VolumeZone": zones.rejection(),
        }
        rejected = {plugin: rejection.text for plugin, rejection in found.items() if rejection is not None}
        assert rejected == rejections(self.plain, obj)
        of_limits = limits.rejection()
        excluded = {
            "VolumeRestrictions": restrictions.excluded(labels.rows),
            "NodeVolumeLimits": limits.excluded(labels.rows) if of_limits is None else (),
            "VolumeBinding": volume_binding.excluded() if "VolumeBinding" not in rejected else (),
            "VolumeZone": zones.excluded() if "VolumeZone" not in rejected else (),
        }
        names = labels.names()
        for name, node in self.plain.nodes.items():
            row = names.index(name)
            ours = {
                plugin: [reason.text for reason, nodes in of_plugin if nodes[row]]
                for plugin, of_plugin in excluded.items()
                if plugin not in rejected
            }
            if of_limits is not None:
                ours["NodeVolumeLimits"] = [of_limits.text]
            assert {plugin: texts for plugin, texts in ours.items() if texts} == reasons(self.plain, obj, node)
            if "VolumeBinding" in rejected:
                continue
            texts, static, provision = binding(self.plain, obj, node)
            choice = volume_binding.choice(row)
            if not texts:
                assert (dict(choice.static), set(choice.provision)) == (static, provision)
        self.compare_placement(obj, request, placed=not (rejected or of_limits))

    def compare_placement(self, obj: Object, request: PodRequest, *, placed: bool) -> None:
        """Compare the node of a pod, of those that fit the one with the lowest name, and the volumes of its claims."""
        fits = [name for name, node in self.plain.nodes.items() if placed and not reasons(self.plain, obj, node)]
        found = self.allocator.place(request)
        assert (found.node, found.feasible) == (min(fits), len(fits)) if found is not None else not fits
        if found is None:
            assert self.allocator.why_not(request).refusals or not self.plain.nodes
            return
        _, static, provision = binding(self.plain, obj, self.plain.nodes[found.node])
        assert {each.claim: (each.volume, each.node) for each in found.bindings} == {
            **dict.fromkeys(provision, ("", found.node)),
            **{claim: (volume, "") for claim, volume in static.items()},
        }
        if found.bindings:
            self.decided += 1

    def decide(self, waiting: list[Object]) -> None:
        """Decide pods one after the other, and compare the others each time; then forget the decisions.

        In the reference a decided volume names its claim, and a claim the node on which its volume is made.
        """
        plain, taken = self.plain, []
        before = {kind: dict(getattr(plain, kind)) for kind in ("pods", "claims", "volumes")}
        for obj in waiting:
            fact = decode_pod(json.dumps(obj).encode())
            found = self.allocator.place(replace(fact.ask, claims=fact.volume_uses))
            if found is None or fact.uid in plain.pods:
                continue
            self.allocator.take(fact.uid, found, fact.tenant)
            taken.append((found.node, fact.uid))
            plain.pods[fact.uid] = obj | {"spec": obj["spec"] | {"nodeName": found.node}}
            for each in found.bindings:
                namespace, name = each.claim.split("/")
                if each.volume:
                    reference = {"namespace": namespace, "name": name, "uid": each.uid}
                    volume = plain.volumes[each.volume]
                    plain.volumes[each.volume] = volume | {"spec": volume["spec"] | {"claimRef": reference}}
                else:
                    claim = copy.deepcopy(plain.claims[each.claim])
                    claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] = found.node
                    plain.claims[each.claim] = claim
            for other in waiting:
                self.compare(other)
        for node, uid in taken:
            self.allocator.release(node, uid)
        for kind, objects in before.items():
            getattr(plain, kind).clear()
            getattr(plain, kind).update(objects)


@pytest.mark.parametrize("first", range(0, CLUSTERS, 40))
def test_random_clusters_equal_the_reference(first: int) -> None:
    decided = 0
    for seed in range(first, min(first + 40, CLUSTERS)):
        both = Both(seed)
        waiting = [both.make.pod() for _ in range(5)]
        for _ in range(8):
            for obj in waiting:
                both.compare(obj)
            both.decide(waiting)
            both.step()
        decided += both.decided
    assert decided or CLUSTERS < 40
