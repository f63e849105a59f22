"""Unbound claims are looked up once for each decision, and again after what they depend on has changed."""

from collections.abc import Callable

import pytest
from deviceshare.allocation import Allocator
from deviceshare.conf import default_conf
from deviceshare.model import (
    HOSTNAME,
    NodeFact,
    PodRequest,
    PodVolume,
    Requirement,
    StorageClassFact,
    Tenant,
    VolumeBinding,
    VolumeClaimFact,
    VolumeFact,
    VolumeUse,
)
from deviceshare.volumes import Binding, Zones, matching

DATA = VolumeClaimFact(key="ns/data", uid="uid-data", storage_class="local", requested=1)
PODS = {"pods": 110}


def disk(name: str, host: str) -> VolumeFact:
    terms = ((Requirement(HOSTNAME, "In", (host,)),),)
    return VolumeFact(name=name, storage_class="local", available=True, capacity=1, node_terms=terms)


def cluster() -> Allocator:
    allocator = Allocator(default_conf())
    for name in ("a", "b"):
        allocator.set_node(NodeFact(name=name, labels={HOSTNAME: name}, allocatable=PODS))
    for fact in (StorageClassFact(name="local", waits=True), DATA, disk("pv-a", "a"), disk("pv-b", "b")):
        allocator.volumes.put(fact)
    return allocator


def using(claim: str) -> PodRequest:
    return PodRequest(volumes=(PodVolume("v", claim),), claims=(VolumeUse(f"ns/{claim}"),))


def binding(volume: str, claim: str = "data") -> VolumeBinding:
    return VolumeBinding(f"ns/{claim}", f"uid-{claim}", volume)


def test_a_decision_looks_its_unbound_claims_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    class Counted(matching.Unbound):
        def __init__(self, *arguments: object) -> None:
            super().__init__(*arguments)
            made.append(self)

    monkeypatch.setattr(matching, "Unbound", Counted)
    allocator = cluster()
    found = allocator.place(using("data"))
    assert (found.node, found.bindings, len(made)) == ("a", (binding("pv-a"),), 1)


@pytest.mark.parametrize(
    "change",
    [
        lambda allocator: allocator.volumes.drop(disk("pv-a", "a")),
        lambda allocator: allocator.volumes.catalog.assume(binding("pv-a", "other"), 1),
        lambda allocator: allocator.set_node(NodeFact(name="a", labels={HOSTNAME: "c"}, allocatable=PODS)),
        lambda allocator: allocator.remove_node("a"),
    ],
    ids=["volume", "decision", "labels", "node"],
)
def test_changes_are_seen(change: Callable[[Allocator], None]) -> None:
    allocator = cluster()
    assert allocator.place(using("data")) is not None
    change(allocator)
    found = allocator.place(using("data"))
    assert (found.node, found.bindings) == ("b", (binding("pv-b"),))


@pytest.mark.parametrize("plugin", [Binding, Zones])
def test_decisions_change_nothing_for_claims_that_are_bound(
    monkeypatch: pytest.MonkeyPatch, plugin: type[Binding | Zones]
) -> None:
    evaluated = []
    excluded = plugin.excluded

    def counted(self: Binding | Zones) -> object:
        evaluated.append(self)
        return excluded(self)

    monkeypatch.setattr(plugin, "excluded", counted)
    allocator = cluster()
    allocator.volumes.put(VolumeClaimFact(key="ns/old", uid="uid-old", storage_class="local", volume="pv", bound=True))
    allocator.volumes.put(VolumeFact(name="pv", storage_class="local", claim="ns/old", claim_uid="uid-old"))
    assert allocator.place(using("old")) is not None
    assert len(evaluated) == 1
    found = allocator.place(using("data"))
    assert found is not None
    allocator.take("uid-p", found, Tenant(volumes=using("data").claims))
    assert len(evaluated) == 2
    assert allocator.place(using("old")) is not None
    assert len(evaluated) == 2
    assert allocator.place(using("data")) is not None
    assert len(evaluated) == 3, "its volume is reserved now"
