"""MIG requests that are rounded up to the same instance are one question: each gets what it would get by itself."""

from deviceshare.conf.model import BEST_FIT, FIRST_FIT
from deviceshare.families.vgpu.geometry import rounded_up
from hypothesis import given, settings
from hypothesis import strategies as st
from support.builders import node, vgpu
from support.mig import A30, A100_40, A100_80, DOCS, IN_GIB, instances, mig_card, mig_cluster

MODELS = (A30, A100_40, A100_80)
MEMORY = st.integers(1, 90_000)


def test_it_is_the_smallest_instance_of_any_model() -> None:
    sizes = {
        each.memory for model in DOCS.vgpu.geometries for group in model.groups for each in group.instances
    }  # fmt: skip
    assert {rounded_up(DOCS.vgpu, memory) for memory in range(1, max(sizes) + 1)} == sizes
    assert rounded_up(DOCS.vgpu, max(sizes) + 1) == max(sizes) + 1
    assert rounded_up(DOCS.vgpu, 0) == 0
    assert rounded_up(IN_GIB.vgpu, 5) < 100, "sizes are in GiB there"


@settings(max_examples=150, deadline=None)
@given(
    models=st.lists(st.sampled_from(MODELS), min_size=1, max_size=4),
    asked=st.lists(MEMORY, min_size=2, max_size=8),
    policy=st.sampled_from(("", "binpack", "spread")),
    geometry=st.sampled_from((BEST_FIT, FIRST_FIT)),
)
def test_pods_that_share_an_answer_get_what_they_would_get_without(models, asked, policy, geometry) -> None:
    nodes = [node(f"n{at}", [mig_card(at, model, node=f"n{at}") for at in range(2)]) for at, model in enumerate(models)]
    shared = mig_cluster(*nodes, policy=policy, weight=1, geometry=geometry)
    held = []
    for number, memory in enumerate((*asked, *(rounded_up(DOCS.vgpu, memory) for memory in asked))):
        alone = mig_cluster(*nodes, policy=policy, weight=1, geometry=geometry)
        for uid, placement in held:
            alone.take(uid, placement)
        placement, expected = shared.place(vgpu(1, memory)), alone.place(vgpu(1, memory))
        assert placement == expected
        if placement is not None:
            assert instances(placement)
            held.append((f"p{number}", placement))
            shared.take(f"p{number}", placement)
