"""The partitioning of unused MIG cards by the requests of the cluster's pods."""

from deviceshare.model import ConfigFact
from deviceshare.scheduler.deciding import EXPECT_INTERVAL
from support.builders import node, pod, vgpu
from support.mig import CONFIGS, mig_card
from support.played import Played


def played() -> Played:
    """Return a core with two unused A100-40GB cards, on a node each."""
    one = Played()
    one.put(ConfigFact(name="devices", text=(CONFIGS / "vgpu-docs.yaml").read_text()))
    for name in "ab":
        one.put(node(name, [mig_card(0, node=name)]))
    return one


def cut(one: Played, name: str, after: float = 0.0) -> str:
    """Let a small pod be placed; returns its instance."""
    one.put(pod(name, vgpu(1, 3000, annotations={"volcano.sh/vgpu-mode": "mig"})))
    out = one.tick(after)
    (instance,) = (
        device.detail
        for claim in out.claims
        if claim.uid == f"uid-{name}"
        for grant in claim.grants
        for device in grant.devices
    )
    one.written(out)
    return instance


def test_the_first_pod_of_a_kind_cuts_the_card_for_the_others_that_are_known() -> None:
    assert cut(played(), "alone") == "group1-0", "seven like it"
    others = played()
    for at in range(9):
        # They run elsewhere, on a node that is not known; or they wait for their gang.
        others.put(pod(f"large-{at}", vgpu(1, 9000), node="elsewhere" if at % 2 else "", gang="" if at % 2 else "g"))
    assert cut(others, "small") == "group2-3", "beside three that are twice as large"


def test_pods_that_have_ended_do_not_count() -> None:
    one = played()
    for at in range(9):
        one.put(pod(f"large-{at}", vgpu(1, 9000), node="elsewhere", ended=True))
    assert cut(one, "small") == "group1-0"


def test_changed_requests_of_pods_are_read() -> None:
    one = played()
    assert cut(one, "first") == "group1-0"
    for at in range(9):
        one.put(pod(f"large-{at}", vgpu(1, 9000), node="elsewhere"))
    assert cut(one, "second", EXPECT_INTERVAL) == "group1-1", "a card in use stays as it is"
    one.put(node("a", []))
    assert cut(one, "third") == "group2-3"
