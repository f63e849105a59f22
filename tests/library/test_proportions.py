"""`predicate.ProportionalEnable`: other pods leave CPU and memory for the free cards of a node."""

import pytest
from deviceshare.allocation import Allocator
from deviceshare.conf import ALL_PREDICATES, Predicates, Proportion, parse_conf
from deviceshare.model import ConfigError
from hypothesis import given
from hypothesis import strategies as st
from support.builders import ask, container, node

GPU = "nvidia.com/gpu"
GB = 10**9


def conf(arguments: str = f"predicate.resources: {GPU}, predicate.resources.{GPU}.cpu: 8"):
    predicates = f"- {{name: predicates, arguments: {{predicate.ProportionalEnable: true, {arguments}}}}}"
    return parse_conf(f"{predicates}\n- {{name: deviceshare, arguments: {{deviceshare.VGPUEnable: true}}}}", "File x")


def cluster(*nodes, **arguments) -> Allocator:
    allocator = Allocator(conf(**arguments))
    for each in nodes:
        allocator.set_node(each)
    return allocator


def take(allocator: Allocator, uid: str, what) -> bool:
    """Place a pod and hold its place, if it fits."""
    placement = allocator.place(what)
    if placement is not None:
        allocator.take(uid, placement)
    return placement is not None


def asking(cpu: int, memory: int = 0, gpus: int = 0):
    amounts = {"cpu": cpu, "memory": memory} | ({GPU: gpus} if gpus else {})
    return ask(container(**amounts))


def test_the_arguments_are_volcanos() -> None:
    rates = f"predicate.resources.{GPU}.cpu: '1.5', predicate.resources.a.com/b.memory: -1"
    listed = f"predicate.resources: '{GPU}, a.com/b', {rates}"
    found = conf(listed)
    assert found.predicates == Predicates(proportions=(Proportion(GPU, 1.5, 1.0), Proportion("a.com/b", 1.0, 1.0)))
    assert found.warnings == ()
    off = parse_conf(f"- {{name: predicates, arguments: {{predicate.resources: {GPU}}}}}", "File x")
    assert off.predicates == ALL_PREDICATES
    (warning, *_) = conf(f"predicate.resources: {GPU}, predicate.resources.a.com/b.cpu: 1").warnings
    assert "is ignored: predicate.resources does not name this resource" in warning
    (warning,) = conf("predicate.resources: volcano.sh/vgpu-number").warnings
    assert "volcano.sh/vgpu-number is not evaluated: it is a resource of shared cards" in warning
    with pytest.raises(ConfigError, match=r"a number from 0 to 1e\+06"):
        conf(f"predicate.resources: {GPU}, predicate.resources.{GPU}.cpu: many")


def test_the_example_of_the_guide() -> None:
    # docs/design/proportional.md of Volcano: 74 CPUs, 128 GB and 8 GPUs at 1:8:8; of two pods of 8 CPUs one is placed.
    arguments = f"predicate.resources: {GPU}, predicate.resources.{GPU}.cpu: 8, predicate.resources.{GPU}.memory: 8"
    one = cluster(node(cpu=74_000, memory=128 * GB, **{GPU: 8}), arguments=arguments)
    assert take(one, "a", asking(8000, 8 * GB))
    assert one.place(asking(8000, 8 * GB)) is None
    (refusal,) = one.why_not(asking(8000, 8 * GB)).first_failing
    assert (refusal.code, refusal.nodes) == ("ProportionNotKept", 1)
    assert refusal.text == f"node(s) keep 8 CPUs and 8 GB for each free {GPU}"


def test_pods_with_gpus_are_not_restricted_and_make_room_for_others() -> None:
    one = cluster(node(cpu=16_000, **{GPU: 2}))
    assert one.place(asking(1000)) is None
    assert take(one, "a", asking(4000, gpus=1))
    assert one.place(asking(4000)) is not None
    assert one.place(asking(5000)) is None
    one.release("n1", "a")
    assert one.place(asking(1000)) is None
    assert cluster(node(cpu=1000)).place(asking(1000)) is not None, "a node without GPUs keeps nothing"


@given(
    cpus=st.integers(0, 40),
    gpus=st.integers(0, 4),
    used=st.lists(st.tuples(st.integers(0, 10), st.integers(0, 1)), max_size=6),
    asked=st.integers(0, 12),
    rate=st.sampled_from([0, 0.5, 1, 8]),
)
def test_the_answer_equals_a_plain_count(cpus, gpus, used, asked, rate) -> None:
    arguments = (
        f"predicate.resources: {GPU}, predicate.resources.{GPU}.cpu: {rate}, predicate.resources.{GPU}.memory: 0"
    )
    allocator = cluster(node(cpu=cpus * 1000, **({GPU: gpus} if gpus else {})), arguments=arguments)
    free_cpus, free_gpus = cpus, gpus
    for number, (cpu, gpu) in enumerate(used):
        kept = gpu > 0 or free_cpus - cpu >= free_gpus * rate
        fits = cpu <= free_cpus and gpu <= free_gpus and kept
        assert take(allocator, f"pod-{number}", asking(cpu * 1000, gpus=gpu)) == fits
        if fits:
            free_cpus, free_gpus = free_cpus - cpu, free_gpus - gpu
    fits = asked <= free_cpus and free_cpus - asked >= free_gpus * rate
    assert (allocator.place(asking(asked * 1000)) is not None) == fits
