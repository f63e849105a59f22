"""A bug in one family: it is named, and keeps only the pods waiting that bring it to light."""

from collections.abc import Iterator

import pytest
from deviceshare.conf import default_conf
from deviceshare.families import FamilyError, GpuNumber, UnknownFamilyError, calling, family_named, register
from deviceshare.model import RequestError
from deviceshare.queueing import Queues
from support.builders import card, cluster, node, pod, vgpu
from support.families import restored_families

BROKEN = vgpu(1, 10, annotations={"abacus": "beads"})
TEXT = "bug in the device family 'abacus': demand raised KeyError: 'beads'"


class Abacus(GpuNumber):
    """Fails where a pod has its annotation."""

    name = "abacus"

    def demand(self, ask, conf):
        if beads := ask.annotation("abacus"):
            raise KeyError(beads)


@pytest.fixture(autouse=True)
def _abacus() -> Iterator[None]:
    with restored_families():
        register(Abacus())
        yield


def test_a_bug_in_a_family_keeps_only_the_pods_waiting_that_bring_it_to_light():
    allocator = cluster(node("a", [card(0, memory=100)]))
    assert allocator.place(BROKEN) is None
    (refusal,) = allocator.why_not(BROKEN).refusals
    assert (refusal.code, refusal.text) == ("DeviceFamilyFailed", TEXT)
    assert allocator.place(vgpu(1, 10)) is not None


def test_a_bug_in_a_family_stops_no_queue():
    queues = Queues(default_conf())
    for name, request in (("broken", BROKEN), ("whole", vgpu(1, 10))):
        fact = pod(name, request)
        queues.put(fact, "default", fact.group)
        queues.hold(fact.uid)


def test_errors_name_the_family():
    with pytest.raises(FamilyError, match="'abacus': held raised ZeroDivisionError"), calling("abacus", "held"):
        _ = 1 // 0
    with pytest.raises(RequestError), calling("abacus", "demand"):
        raise RequestError("Pod", "spec", 0, "1")
    with pytest.raises(UnknownFamilyError, match="there is no device family 'sundial'"):
        family_named("sundial")
