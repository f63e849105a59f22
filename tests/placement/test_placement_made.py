"""Devices that a device plugin reports for a bound pod affect decisions, also while its claim exists."""

import pytest
from deviceshare.families import BY_NAME
from deviceshare.model import Card, PodRequest
from support.builders import ask, container, node, pod
from support.played import Played

CORES, REAL = "huawei.com/npu-core", "huawei.com/AscendReal"
CHIP = Card("Ascend310P-0", 0, 7, 0, 8, mode="mindcluster")


def asks(cores: int) -> PodRequest:
    labels = (("ring-controller.atlas", "ascend-310P"), ("vnpu-level", "high"))
    return ask(container(**{CORES: cores}), labels=labels)


class OneChip(Played):
    """A core with one node of one chip."""

    def __init__(self) -> None:
        super().__init__(node("n1", [CHIP], **{CORES: 8}))

    def wait(self, name: str, cores: int) -> None:
        self.put(pod(name, asks(cores)))

    def run(self, name: str, cores: int, written: dict[str, str]) -> None:
        held = BY_NAME["mindcluster"].held(written, asks(cores), f"ns/{name}")
        self.put(pod(name, asks(cores), node="n1", held=held))

    def claimed(self) -> dict[str, str]:
        """Tick; return the templates of the pods of the node, if its ledger is written."""
        out = self.decided()
        return {claim.name: claim.grants[0].devices[0].detail for claim in out.claims}


@pytest.fixture
def played() -> OneChip:
    played = OneChip()
    played.wait("first", 4)
    assert played.claimed() == {"first": "vir04"}
    return played


def test_others_wait_for_the_vnpu_of_a_bound_pod_and_are_decided_when_it_is_created(played) -> None:
    played.run("first", 4, {CORES: "0-vir04"})
    played.wait("second", 2)
    assert played.claimed() == {}
    played.run("first", 4, {CORES: "0-vir04", REAL: "Ascend310P-4c-100-0_0"})
    assert played.claimed() == {"first": "vir04", "second": "vir02"}


def test_a_pod_that_says_it_has_less_than_it_was_given_holds_what_it_was_given(played) -> None:
    played.run("first", 4, {CORES: "0-vir04_3c", REAL: "Ascend310P-4c-100-0_0"})
    played.wait("second", 4)
    assert played.claimed() == {"first": "vir04", "second": "vir04_3c"}
