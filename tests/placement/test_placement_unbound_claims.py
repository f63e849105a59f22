"""Claims that are bound when their first pod has a node: the node and the volumes are decided together."""

import pytest
from deviceshare.model import (
    HOSTNAME,
    Claim,
    NodeFact,
    PodFact,
    PodGroupFact,
    PodVolume,
    Requirement,
    StorageClassFact,
    VolumeBinding,
    VolumeClaimFact,
    VolumeFact,
    VolumeLimitsFact,
    VolumeUse,
)
from deviceshare_bus.messages import subjects
from deviceshare_placement.core.claims import INTER_POD
from msgspec.structs import replace
from support.builders import ask, container, node, pod
from support.played import Played

CPU = ask(container(cpu=100))
ZONE = "topology.kubernetes.io/zone"
LOCAL = StorageClassFact(name="local", provisioner="kubernetes.io/no-provisioner", waits=True)
FAST = StorageClassFact(name="fast", provisioner="disk.example.com", waits=True)
ZONAL = replace(FAST, name="zonal", topologies=((Requirement(ZONE, "In", ("z2",)),),))
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"


def place(name: str, **labels: str) -> NodeFact:
    return node(name, labels={HOSTNAME: name, **labels})


def using(name: str, *claims: str, **more) -> PodFact:
    volumes = tuple(PodVolume(f"v{number}", claim) for number, claim in enumerate(claims))
    return pod(name, replace(CPU, volumes=volumes), **more)


def unbound(name: str, storage_class: str = "local", size: int = 1, **more) -> VolumeClaimFact:
    return VolumeClaimFact(
        key=f"ns/{name}", uid=f"uid-{name}", storage_class=storage_class, requested=size, access_modes=("RWO",), **more
    )


def disk(name: str, host: str, capacity: int = 1, **more) -> VolumeFact:
    terms = ((Requirement(HOSTNAME, "In", (host,)),),)
    return VolumeFact(
        name=name, storage_class="local", available=True, capacity=capacity, access_modes=("RWO",), node_terms=terms,
        **more,
    )  # fmt: skip


def reserved(name: str, volume: str) -> VolumeBinding:
    return VolumeBinding(f"ns/{name}", f"uid-{name}", volume)


def made(name: str, host: str) -> VolumeBinding:
    return VolumeBinding(f"ns/{name}", f"uid-{name}", node=host)


def settle(core: Played) -> dict[str, tuple[str, tuple[VolumeBinding, ...]]]:
    """Decide until nothing changes; return the nodes and the bindings of the new claims by pod."""
    found = {}
    while (out := core.tick()).writes:
        found |= {claim.name: (ledger.node, claim.bindings) for ledger in out.ledgers for claim in ledger.claims}
        core.written(out)
    return found


def begin(*facts) -> Played:
    core = Played(place("a", **{ZONE: "z1"}), place("b", **{ZONE: "z2"}), place("c", **{ZONE: "z2"}))
    core.put(LOCAL, FAST, ZONAL, *facts)
    return core


def test_a_volume_is_not_chosen_twice() -> None:
    core = begin(unbound("one"), unbound("two"), disk("pv", "b"))
    core.put(using("p", "one"), using("q", "two"))
    out = core.tick()
    assert [(claim.name, claim.bindings) for claim in out.claims] == [("p", (reserved("one", "pv"),))]
    assert any(each.subject == subjects.ledger(INTER_POD) for write in out.writes for each in write.writes)
    core.written(out)
    assert any(NO_VOLUME in message for message in core.tick().messages or out.messages)
    core.put(disk("other", "c"))
    assert settle(core) == {"q": ("c", (reserved("two", "other"),))}


def test_a_volume_that_another_replica_chose_is_taken_before_its_pod_is_known() -> None:
    core = begin(unbound("one"), unbound("two"), disk("pv-1", "a"), disk("pv-2", "b", 2))
    theirs = Claim(id="other-1", uid="uid-t", namespace="ns", name="t", volumes=(VolumeUse("ns/one"),))
    theirs = replace(theirs, bindings=(reserved("one", "pv-1"),))
    core.ledger("a", 1, theirs)
    core.put(using("p", "two"))
    assert settle(core)["p"] == ("b", (reserved("two", "pv-2"),))


def test_pods_of_one_claim_go_where_its_volume_is_made() -> None:
    core = begin(unbound("data", "fast"))
    core.put(using("p", "data"))
    first = settle(core)["p"]
    core.put(node("a", cpu=0), using("q", "data"))
    assert first == ("a", (made("data", "a"),))
    assert "q" not in settle(core)
    core.put(place("a"))
    assert settle(core)["q"] == ("a", (made("data", "a"),))


def test_a_refused_claim_frees_its_volume() -> None:
    core = begin(unbound("one"), unbound("two"), disk("pv", "b"))
    core.put(using("p", "one"))
    out = core.decided()
    core.put(using("q", "two"))
    assert settle(core) == {}
    (claim,) = out.claims
    core.put(disk("pv", "b", terminating=True))
    core.outcome(claim, "refused", "the volume is taken", "b")
    settle(core)
    core.put(disk("pv", "b"))
    assert list(settle(core).values()) in ([("b", (reserved("one", "pv"),))], [("b", (reserved("two", "pv"),))])


@pytest.mark.parametrize("volumes", [2, 3])
def test_a_gang_gets_a_volume_for_each_pod_or_waits(volumes: int) -> None:
    core = begin(
        *(disk(f"pv-{number}", "abc"[number]) for number in range(volumes)),
        PodGroupFact(key="ns/g", uid="g", min_member=3, admitted=True),
    )
    for number in range(3):
        core.put(unbound(f"data-{number}"), using(f"p{number}", f"data-{number}", gang="g"))
    found = settle(core)
    assert len(found) == (3 if volumes == 3 else 0)
    assert len({bindings[0].volume for _, bindings in found.values()}) == len(found)


def retried(core: Played) -> int:
    """Return how many waiting pods the next round tries again; then let it explain why they wait."""
    found = len(core.core.scheduler.cluster.dispatcher)
    for _ in range(3):
        assert not core.tick(20.0).writes
    return found


def begin_waiting(*facts) -> Played:
    """Pod p has the only volume; wait: a pod without claims that is too large, and q for a volume."""
    core = begin(unbound("data"), unbound("late"), disk("pv", "b"), *facts)
    core.put(using("p", "data"))
    assert settle(core) == {"p": ("b", (reserved("data", "pv"),))}
    core.put(pod("large", ask(container(cpu=1_000_000))), using("q", "late"))
    retried(core)
    assert retried(core) == 0
    return core


def test_a_pod_whose_volumes_are_bound_makes_no_others_be_tried_again() -> None:
    core, taken = begin_waiting(), replace(disk("pv", "b", claim="ns/data", claim_uid="uid-data"), available=False)
    core.put(taken)
    assert retried(core) == 0
    core.put(replace(unbound("data"), volume="pv"), replace(unbound("data"), volume="pv", bound=True))
    assert retried(core) == 0
    core.put(using("p", "data", node="b"))
    assert retried(core) == 0
    core.put(place("d"))
    assert retried(core) == 2


@pytest.mark.parametrize(
    ("fact", "also"),
    [
        (disk("other", "c"), True),
        (replace(disk("pv", "c"), terminating=True), True),
        (replace(LOCAL, provisioner="disk.example.com"), True),
        (VolumeLimitsFact(name="a", drivers=(("disk.example.com", 1),)), True),
        (replace(disk("pv", "b", claim="ns/late", claim_uid="uid-late"), available=False), False),
        (unbound("late", size=2), False),
    ],
)
def test_what_may_help_a_pod_that_waits_for_a_volume(fact, *, also: bool) -> None:
    """``also``: it may help other pods with claims; else only the pods of one claim."""
    core = begin_waiting(unbound("another"))
    core.put(using("r", "another"))
    retried(core)
    core.put(fact)
    dispatcher = core.core.scheduler.cluster.dispatcher
    again = {group.removeprefix("pod/uid-") for group in core.core.scheduler.cluster.candidates}
    assert (len(dispatcher), again) == ((2, set()) if also else (0, {"q"}))


def test_a_volume_for_the_claim_of_two_waiting_pods() -> None:
    core = begin(unbound("data"))
    for name in "pq":
        core.put(using(name, "data"))
    assert settle(core) == {}
    retried(core)
    core.put(disk("pv", "b", claim="ns/data", claim_uid="uid-data"))
    assert {name: node for name, (node, _) in settle(core).items()} == {"p": "b", "q": "b"}


def test_limits_that_a_claim_of_another_pod_no_longer_reaches() -> None:
    """The claim is lost: its volume is not attached to the node any more."""
    made_by = {"driver": "disk.example.com", "node_terms": disk("x", "a").node_terms}
    of_pods = [VolumeFact(name=f"pv-{name}", handle=name, claim=f"ns/{name}", **made_by) for name in ("one", "two")]
    claims = [replace(unbound(name), volume=f"pv-{name}", bound=True) for name in ("one", "two")]
    core = begin(*of_pods, *claims, VolumeLimitsFact(name="a", drivers=(("disk.example.com", 1),)))
    core.put(using("p", "one", node="a"), using("q", "two"))
    assert settle(core) == {}
    retried(core)
    core.remove("volumeclaim", "ns/one")
    assert settle(core) == {"q": ("a", ())}


def test_a_volume_that_is_no_longer_reserved_for_a_claim() -> None:
    """While a volume is reserved for it, no other is bound to it."""
    mine = disk("mine", "nowhere", claim="ns/data", claim_uid="uid-data")
    core = begin(unbound("data"), mine, disk("free", "b"))
    core.put(using("p", "data"))
    assert settle(core) == {}
    retried(core)
    core.put(replace(mine, claim="ns/other", claim_uid="uid-other"))
    assert settle(core) == {"p": ("b", (reserved("data", "free"),))}


def test_a_bound_volume_that_can_be_used_on_other_nodes() -> None:
    volume = disk("pv", "nowhere", claim="ns/other", claim_uid="uid-other")
    core = begin(replace(unbound("data"), volume="pv", bound=True), volume)
    core.put(using("p", "data"))
    assert settle(core) == {}
    retried(core)
    core.put(replace(volume, node_terms=disk("pv", "c").node_terms))
    assert settle(core) == {"p": ("c", ())}
