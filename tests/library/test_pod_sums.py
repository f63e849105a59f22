"""What a pod takes of a node, as Kubernetes adds it up, and as how much scores count it."""

import pytest
from deviceshare.state import SCORED, at_least, pod_resources, unasked
from hypothesis import given
from hypothesis import strategies as st
from support.builders import ask, container

MIB = 2**20
CPU, MEMORY = "cpu" + SCORED, "memory" + SCORED


def test_a_pod_takes_the_larger_of_its_init_containers_and_the_others() -> None:
    what = ask(
        container("a", cpu=100),
        container("b", cpu=200),
        init_containers=(
            container("before", cpu=500),
            container("side", sidecar=True, cpu=50, memory=7),
            container("after", cpu=300),
        ),
        overhead=(("cpu", 10),),
    )
    # before: 500; after beside the sidecar: 350; all beside the sidecar: 350; and the overhead.
    assert pod_resources(what, frozenset()) == (("cpu", 510), ("memory", 7))
    assert pod_resources(what, frozenset({"cpu"})) == (("memory", 7),)


def test_what_the_pod_requests_as_a_whole_stands_in_place_of_the_sum() -> None:
    what = ask(
        container(cpu=100, memory=5 * MIB, **{"nvidia.com/gpu": 1}),
        pod_level=(("cpu", 3000), ("hugepages-2Mi", 2 * MIB)),
        overhead=(("cpu", 10),),
    )
    assert pod_resources(what, frozenset()) == (
        ("cpu", 3010), ("hugepages-2Mi", 2 * MIB), ("memory", 5 * MIB), ("nvidia.com/gpu", 1),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("containers", "cpu", "memory"),
    [
        ((), 0, 0),
        ((container("a"),), 100, 200),
        ((container("a"), container("b", cpu=10)), 110, 400),
        ((container("a", cpu=0, memory=0),), 0, 0),
        ((container("a", cpu=250, memory=300 * MIB),), 250, 300),
    ],
)
def test_containers_that_request_nothing_count_all_the_same(containers, cpu, memory) -> None:
    what = ask(*containers)
    assert at_least(what) == (cpu, memory * MIB)
    asked = dict(pod_resources(what, frozenset()))
    more = {CPU: cpu - asked.get("cpu", 0), MEMORY: memory * MIB - asked.get("memory", 0)}
    assert dict(unasked(what)) == {name: amount for name, amount in more.items() if amount}


def test_init_containers_that_request_nothing_count_as_well() -> None:
    what = ask(container(cpu=10, memory=MIB), init_containers=(container("i", sidecar=True), container("j")))
    assert at_least(what) == (200, 400 * MIB)


def test_pod_level_requests_add_only_what_no_container_requests() -> None:
    what = ask(container("a", cpu=10), container("b"), pod_level=(("cpu", 50),))
    assert unasked(what) == ((MEMORY, 400 * MIB),)
    assert unasked(ask(container(), pod_level=(("cpu", 50), ("memory", MIB)))) == ()


amounts = st.dictionaries(st.sampled_from(["cpu", "memory", "x/y"]), st.integers(0, 5), max_size=3)
containers = st.builds(lambda has, sidecar: container(sidecar=sidecar, **has), amounts, st.booleans())


@given(st.lists(containers, max_size=3), st.lists(containers, min_size=1, max_size=3))
def test_at_every_moment_a_pod_has_what_runs_then(before, together) -> None:
    what = ask(*together, init_containers=tuple(before))
    for name in ("cpu", "memory", "x/y"):
        sidecars, needed = 0, []
        for one in before:
            needed.append(sidecars + (one.get(name) or 0))
            sidecars += (one.get(name) or 0) if one.sidecar else 0
        needed.append(sidecars + sum(one.get(name) or 0 for one in together))
        assert dict(pod_resources(what, frozenset())).get(name, 0) == max(needed)
