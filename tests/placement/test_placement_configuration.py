"""The configuration changes while pods wait and run: placement decides by the new one, claims keep what they have."""

import pytest
from deviceshare.model import ConfigFact, ContainerRequest, Gone, PodRequest, Synced
from deviceshare_placement.core import Instructions, PlacementCore
from support.builders import card, container, node, pod, vgpu

RENAMED = "nvidia: {resourceCountName: acme.io/gpus, resourceMemoryName: acme.io/mebibytes}"
HALVES = "- name: deviceshare\n  arguments: {deviceshare.GPUSharingEnable: true}"
SUBJECT = "cluster.config."


class Played:
    """A core with one node of one card of 100 MiB, all of it synced."""

    def __init__(self) -> None:
        self.core = PlacementCore("p")
        self.core.on_fact("cluster.node.a", node("a", [card(0, memory=100)]), 1.0)
        self.core.on_fact("cluster.synced", Synced(), 1.0)
        self.core.on_caught_up(1.0)

    def put(self, name: str, what: PodRequest, **rest: object) -> None:
        self.core.on_fact(f"cluster.pod.uid-{name}", pod(name, what, **rest), 1.0)

    def configure(self, name: str, text: str) -> None:
        self.core.on_fact(f"{SUBJECT}{name}", ConfigFact(name=name, text=text, source="x"), 1.0)

    def unconfigure(self, name: str) -> None:
        self.core.on_fact(f"{SUBJECT}{name}", Gone(), 1.0)

    def placed(self) -> list[str]:
        """Run a cycle; return the names of the pods in the ledgers that it writes."""
        out: Instructions = self.core.cycle(1.0)
        for publication in out.publications:
            self.core.on_published(publication.token, 1, 1.0)
        return [claim.name for one in out.publications for write in one.writes for claim in write.ledger.claims]


@pytest.fixture
def played() -> Played:
    return Played()


def renamed(gpus: int, memory: int) -> PodRequest:
    return PodRequest(containers=(ContainerRequest("main", (("acme.io/gpus", gpus), ("acme.io/mebibytes", memory))),))


def test_a_pod_that_asks_by_another_name_is_placed_when_the_devices_are_called_so(played) -> None:
    played.put("x", renamed(1, 60))
    assert played.placed() == []
    played.configure("devices", RENAMED)
    assert played.placed() == ["x"]
    played.put("y", renamed(1, 60))
    assert played.placed() == [], "x keeps what it has"


def test_an_unreadable_text_leaves_the_last_good_one_and_without_any_the_usual_names_hold(played) -> None:
    played.configure("devices", RENAMED)
    played.configure("devices", "nvidia: 5")
    played.put("x", renamed(1, 60))
    assert played.placed() == ["x"]
    played.unconfigure("devices")
    played.put("y", vgpu(1, 30))
    played.put("z", renamed(1, 5))
    assert played.placed() == ["x", "y"]


def test_both_configurations_hold_whichever_comes_last(played) -> None:
    played.configure("devices", RENAMED)
    played.configure("scheduler", HALVES)
    played.put("x", renamed(1, 60))
    assert played.placed() == [], "vGPUs are off"
    played.unconfigure("scheduler")
    assert played.placed() == ["x"]


def test_a_bound_pod_is_charged_for_what_is_no_device_any_more(played) -> None:
    """It was bound by others, so its ask alone says what it takes of its node."""
    sold = node("a", [card(0, memory=100)], **{"acme.io/gpus": 2})
    played.core.on_fact("cluster.node.a", sold, 1.0)
    played.configure("devices", RENAMED)
    gpus = container(**{"acme.io/gpus": 2})
    played.put("x", PodRequest(containers=(gpus,)), node="a")
    played.unconfigure("devices")  # acme.io/gpus is a plain amount of the node from here on
    played.put("y", PodRequest(containers=(container(**{"acme.io/gpus": 1}),)))
    assert played.placed() == []
    played.configure("devices", RENAMED)
    assert played.placed() == ["y"]
