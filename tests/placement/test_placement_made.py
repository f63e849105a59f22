"""What a device plugin says of a bound pod's device reaches the decision, also while its claim stands."""

import pytest
from deviceshare.families import BY_NAME
from deviceshare.model import Card, PodRequest, Synced
from deviceshare_placement.core import PlacementCore
from support.builders import ask, container, node, pod

CORES, REAL = "huawei.com/npu-core", "huawei.com/AscendReal"
CHIP = Card("Ascend310P-0", 0, 7, 0, 8, mode="mindcluster")


def asks(cores: int) -> PodRequest:
    labels = (("ring-controller.atlas", "ascend-310P"), ("vnpu-level", "high"))
    return ask(container(**{CORES: cores}), labels=labels)


class Played:
    """A core with one node of one chip, all of it synced."""

    def __init__(self) -> None:
        self.core = PlacementCore("p")
        self.core.on_fact("cluster.node.n1", node("n1", [CHIP], **{CORES: 8}), 1.0)
        self.core.on_fact("cluster.synced", Synced(), 1.0)
        self.core.on_caught_up(1.0)
        self.sequence = 0

    def wait(self, name: str, cores: int) -> None:
        self.core.on_fact(f"cluster.pod.uid-{name}", pod(name, asks(cores)), 1.0)

    def run(self, name: str, cores: int, written: dict[str, str]) -> None:
        held = BY_NAME["mindcluster"].held(written, asks(cores), f"ns/{name}")
        self.core.on_fact(f"cluster.pod.uid-{name}", pod(name, asks(cores), node="n1", held=held), 1.0)

    def claimed(self) -> dict[str, str]:
        """Run a cycle; return the templates that pods of the node have, if its ledger is written."""
        found = {}
        for publication in self.core.cycle(1.0).publications:
            self.sequence += 1
            self.core.on_published(publication.token, self.sequence, 1.0)
            for write in publication.writes:
                found = {claim.name: claim.grants[0].devices[0].detail for claim in write.ledger.claims}
        return found


@pytest.fixture
def played() -> Played:
    played = Played()
    played.wait("first", 4)
    assert played.claimed() == {"first": "vir04"}
    return played


def test_others_wait_for_the_vnpu_of_a_bound_pod_and_are_looked_at_when_it_is_made(played) -> None:
    played.run("first", 4, {CORES: "0-vir04"})
    played.wait("second", 2)
    assert played.claimed() == {}
    played.run("first", 4, {CORES: "0-vir04", REAL: "Ascend310P-4c-100-0_0"})
    assert played.claimed() == {"first": "vir04", "second": "vir02"}


def test_a_pod_that_says_it_has_less_than_it_was_given_holds_what_it_was_given(played) -> None:
    played.run("first", 4, {CORES: "0-vir04_3c", REAL: "Ascend310P-4c-100-0_0"})
    played.wait("second", 4)
    assert played.claimed() == {"first": "vir04", "second": "vir04_3c"}
