"""MIG requests that are rounded up to the same instance are one question: each gets what it would get by itself."""

from deviceshare.allocation import Allocator
from deviceshare.conf import FIRST_FIT, NodeOrder
from deviceshare.conf.model import BEST_FIT
from deviceshare.families.vgpu.geometry import rounded_up
from deviceshare.families.vgpu.section import VgpuConf
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from support.builders import MEMORY, NUMBER, ask, container, node
from support.mig import A30, A100_40, A100_80, DOCS, IN_GIB, instances, mig_card, mig_cluster

MODELS = (A30, A100_40, A100_80)
AMOUNTS = st.integers(1, 90_000)


def test_it_is_the_smallest_instance_of_any_model() -> None:
    sizes = {
        each.memory for model in DOCS.section(VgpuConf).geometries for group in model.groups for each in group.instances
    }  # fmt: skip
    assert {rounded_up(DOCS.section(VgpuConf), memory) for memory in range(1, max(sizes) + 1)} == sizes
    assert rounded_up(DOCS.section(VgpuConf), max(sizes) + 1) == max(sizes) + 1
    assert rounded_up(DOCS.section(VgpuConf), 0) == 0
    assert rounded_up(IN_GIB.section(VgpuConf), 5) < 100, "sizes are in GiB there"


@settings(max_examples=150, deadline=None)
@given(
    models=st.lists(st.sampled_from(MODELS), min_size=1, max_size=4),
    asked=st.lists(AMOUNTS, min_size=2, max_size=8),
    policy=st.sampled_from(("", "binpack", "spread")),
    geometry=st.sampled_from((BEST_FIT, FIRST_FIT)),
    order=st.sampled_from((None, NodeOrder(), NodeOrder(most_requested=3))),
    offered=st.lists(st.none() | st.integers(0, 90_000), min_size=4, max_size=4),
)
def test_pods_that_share_an_answer_get_what_they_would_get_without(
    models, asked, policy, geometry, order, offered
) -> None:
    nodes = [
        node(
            f"n{at}",
            [mig_card(at, model, node=f"n{at}") for at in range(2)],
            cpu=8000 + 1000 * at,
            **({} if memory is None else {MEMORY: memory}),
        )
        for at, (model, memory) in enumerate(zip(models, offered, strict=False))
    ]

    def cluster() -> Allocator:
        allocator = mig_cluster(*nodes, policy=policy, weight=1, geometry=geometry)
        allocator.set_configuration(replace(allocator.conf, nodeorder=order))
        return allocator

    shared, held = cluster(), []
    for number, memory in enumerate((*asked, *(rounded_up(DOCS.section(VgpuConf), memory) for memory in asked))):
        alone = cluster()
        for uid, placement in held:
            alone.take(uid, placement)
        what = ask(container(cpu=1000 + number % 2 * 500, **{NUMBER: 1, MEMORY: memory}))
        placement = shared.place(what)
        assert placement == alone.place(what)
        if placement is not None:
            assert instances(placement)
            held.append((f"p{number}", placement))
            shared.take(f"p{number}", placement)


def test_amounts_that_kubelet_counts_share_an_answer_until_they_matter() -> None:
    cards = [mig_card(at, A100_40) for at in range(2)]
    one = mig_cluster(node("n1", cards, **{MEMORY: 2 * 40960}))
    few, many = (ask(container(**{NUMBER: 1, MEMORY: amount})) for amount in (1000, 4000))

    def rankings() -> int:
        for what in (few, many):
            one.place(what)
        return len({id(one.pod_class(what).ranking) for what in (few, many)})

    assert rankings() == 1
    one.set_node(node("n1", cards, **{MEMORY: 3000}))
    assert rankings() == 2
    assert one.place(few) is not None
    assert one.place(many) is None
    one.set_node(node("n1", cards, **{MEMORY: 2 * 40960}))
    assert rankings() == 1
    assert one.place(many) == replace(one.place(few), grants=one.place(many).grants, counted=one.place(many).counted)
