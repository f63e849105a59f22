"""The configuration changes while pods wait and run: placement uses the new one, claims keep their devices."""

import pytest
from deviceshare.model import ConfigFact, ContainerRequest, PodRequest
from support.builders import card, container, node, pod, vgpu
from support.played import Played

RENAMED = "nvidia: {resourceCountName: acme.io/gpus, resourceMemoryName: acme.io/mebibytes}"
HALVES = "- name: deviceshare\n  arguments: {deviceshare.GPUSharingEnable: true}"


class Configured(Played):
    """A core with one node of one card of 100 MiB."""

    def __init__(self) -> None:
        super().__init__(node("a", [card(0, memory=100)]))

    def want(self, name: str, what: PodRequest, **rest: object) -> None:
        self.put(pod(name, what, **rest))

    def configure(self, name: str, text: str) -> None:
        self.put(ConfigFact(name=name, text=text, source="x"))

    def placed(self) -> list[str]:
        """Tick; return the names of the pods in the ledgers that are written."""
        out = self.decided()
        return [claim.name for claim in out.claims]


@pytest.fixture
def played() -> Configured:
    return Configured()


def renamed(gpus: int, memory: int) -> PodRequest:
    return PodRequest(containers=(ContainerRequest("main", (("acme.io/gpus", gpus), ("acme.io/mebibytes", memory))),))


def test_a_pod_that_requests_by_another_name_is_placed_when_the_devices_are_called_so(played) -> None:
    played.want("x", renamed(1, 60))
    assert played.placed() == []
    played.configure("devices", RENAMED)
    assert played.placed() == ["x"]
    played.want("y", renamed(1, 60))
    assert played.placed() == [], "x keeps what it has"


def test_an_unreadable_text_leaves_the_last_good_one_and_without_any_the_usual_names_hold(played) -> None:
    played.configure("devices", RENAMED)
    played.configure("devices", "nvidia: 5")
    played.want("x", renamed(1, 60))
    assert played.placed() == ["x"]
    played.remove("config", "devices")
    played.want("y", vgpu(1, 30))
    played.want("z", renamed(1, 5))
    assert played.placed() == ["x", "y"]


def test_both_configurations_hold_whichever_comes_last(played) -> None:
    played.configure("devices", RENAMED)
    played.configure("scheduler", HALVES)
    played.want("x", renamed(1, 60))
    assert played.placed() == [], "vGPUs are off"
    played.remove("config", "scheduler")
    assert played.placed() == ["x"]


def test_a_bound_pod_is_charged_for_what_is_no_device_any_more(played) -> None:
    """It was bound by others, so its ask alone says what it takes of its node."""
    sold = node("a", [card(0, memory=100)], **{"acme.io/gpus": 2})
    played.put(sold)
    played.configure("devices", RENAMED)
    gpus = container(**{"acme.io/gpus": 2})
    played.want("x", PodRequest(containers=(gpus,)), node="a")
    played.remove("config", "devices")  # acme.io/gpus is a plain amount of the node from here on
    played.want("y", PodRequest(containers=(container(**{"acme.io/gpus": 1}),)))
    assert played.placed() == []
    played.configure("devices", RENAMED)
    assert played.placed() == [], "kubelet counts its request, whatever cards it has"
    played.remove("pod", "uid-x")
    assert played.placed() == ["y"]


def test_a_pod_that_has_to_leave_cpus_for_free_gpus_is_placed_when_they_are_in_use(played) -> None:
    played.put(node("a", cpu=16_000, **{"nvidia.com/gpu": 2}))
    resources = "predicate.resources: nvidia.com/gpu, predicate.resources.nvidia.com/gpu.cpu: 8"
    predicates = f"- {{name: predicates, arguments: {{predicate.ProportionalEnable: true, {resources}}}}}"
    played.configure("scheduler", f"{predicates}\n{HALVES}")
    played.want("x", PodRequest(containers=(container(cpu=4000),)))
    assert played.placed() == []
    played.want("y", PodRequest(containers=(container(cpu=4000, **{"nvidia.com/gpu": 1}),)))
    assert played.placed() == ["y"]
    assert set(played.placed()) == {"x", "y"}
