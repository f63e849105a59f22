"""Pod classes: one handle for equal requests, and rankings that are dropped one by one."""

import gc
import weakref

from deviceshare.allocation import Allocator
from deviceshare.allocation.pod_classes import MAX_RANKED
from deviceshare.model import HOSTNAME, PodVolume, Requirement, VolumeClaimFact, VolumeFact, VolumeUse
from msgspec.structs import replace
from support.builders import card, cluster, conf, node, vgpu, whole, whole_cards

COMMON = vgpu(1, 10)


def daemon(number: int):
    """Return the request of a DaemonSet's pod on one node."""
    return replace(COMMON, node_terms=((Requirement("metadata.name", "In", (f"n{number}",), field=True),),))


def allocator() -> Allocator:
    return cluster(node("a", [card(0, memory=100)]))


def ranked(one: Allocator, request) -> object | None:
    return one.pod_class(request).__dict__.get("ranking")


def test_equal_requests_have_one_handle_as_long_as_it_is_held():
    one = allocator()
    handle = one.pod_class(vgpu(1, 10))
    assert one.pod_class(replace(vgpu(1, 10))) is handle
    assert one.pod_class(vgpu(1, 11)) is not handle
    one.place(handle.request)
    other = one.pod_class(daemon(1))
    gone = weakref.ref(other)
    del other
    gc.collect()
    assert gone() is None


def test_many_requests_do_not_reset_the_rankings_of_the_others():
    one = allocator()
    assert one.place(COMMON) is not None
    ranking, first = ranked(one, COMMON), daemon(0)
    handles = [one.pod_class(first)]
    one.place(first)
    for number in range(1, 5000):
        handles.append(one.pod_class(daemon(number)))
        assert one.place(daemon(number)) is None
        if number % 1000 == 0:
            assert one.place(COMMON) is not None
    assert ranking is not None
    assert ranked(one, COMMON) is ranking
    assert ranked(one, first) is None, "the least recently used one is dropped"
    assert sum("ranking" in handle.__dict__ for handle in handles) == MAX_RANKED - 1
    assert one.place(first) is None
    assert ranked(one, first) is not None, "and found again"


def test_a_handle_outlives_its_configuration():
    one = allocator()
    handle = one.pod_class(COMMON)
    assert one.place(COMMON) is not None
    one.set_configuration(replace(conf(), families=frozenset()))
    assert one.pod_class(COMMON) is handle
    assert one.place(COMMON) is None
    assert one.why_not(COMMON).refusals[0].code == "FamilyDisabled"
    one.set_configuration(conf())
    assert one.place(COMMON) is not None


def test_replicas_with_a_claim_each_share_one_ranking_without_kernels():
    one = cluster(node("a", whole_cards(4)))
    one.volumes.put(VolumeFact(name="pv"))
    found = set()
    for number in range(3):
        key = f"ns/data-{number}"
        one.volumes.put(VolumeClaimFact(key=key, volume="pv", bound=True))
        request = replace(whole(1), volumes=(PodVolume("data", f"data-{number}"),), claims=(VolumeUse(key),))
        handle = one.pod_class(request)
        assert one.place(request) is not None
        assert handle.ranking.node_index.selectors is None, "the families evaluate the nodes"
        found.add(handle.ranking)
    assert len(found) == 1


def test_classes_with_volumes_share_their_arrays():
    """Of the size of the cluster a class keeps only a byte a node for each reason of its volumes."""
    one = cluster(*(node(f"n{number}", [card(0)], labels={HOSTNAME: f"n{number}"}) for number in range(3)))
    terms = ((Requirement(HOSTNAME, "In", ("n1",)),),)
    classes = []
    for number in range(2):
        key = f"ns/data-{number}"
        one.volumes.put(VolumeFact(name=f"pv-{number}", node_terms=terms))
        one.volumes.put(VolumeClaimFact(key=key, volume=f"pv-{number}", bound=True))
        request = replace(COMMON, volumes=(PodVolume("data", f"data-{number}"),), claims=(VolumeUse(key),))
        assert one.place(request).node == "n1"
        classes.append(one.pod_class(request))
    first, second = (each.inter_pod for each in classes)
    assert first is not second
    assert first._scan is second._scan
    rows = one.volumes.labels.rows
    assert first._without_excluded(rows)[0] is second._without_excluded(rows)[0]
