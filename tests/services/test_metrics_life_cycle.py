"""The stages of a pod's life by the steps on EVENT."""

from deviceshare_metrics.core.life_cycle import life_cycle
from deviceshare_metrics.core.state_store import PodStep


def step(name: str, at: float, service: str = "binder") -> PodStep:
    return PodStep(service, name, at, "n1", "")


def test_a_pod_was_bound_when_it_was_first_reported_though_a_later_binder_finds_the_binding_again() -> None:
    steps = [step("seen", 1.0, "inventory"), step("claimed", 2.0, "placement"), step("bound", 3.0), step("bound", 9.0)]
    stages = {stage.name: stage.at for stage in life_cycle(None, None, steps)}
    assert stages["bound"] == 3.0
