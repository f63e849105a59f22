"""Corrections of misspelt resource names, and scores that depend on the requested amounts."""

import pytest
from deviceshare.allocation.resource_names import nearest
from deviceshare.conf.node_plugins import Binpack
from msgspec.structs import replace
from support.builders import ask, cluster, conf, container, node, weighted_scores


@pytest.mark.parametrize(
    ("resource", "known", "expected"),
    [
        ("a.b/vgpu", ["a.b/vgpux1"], "a.b/vgpux1"),
        ("vgpu", ["vgpux1"], ""),
        ("vgpu-memor", ["vgpu-memory"], "vgpu-memory"),
        ("a.b/vgpu", ["c.d/vgpux1"], ""),
        ("a.b/vgpu", ["a.c/vgpu"], "a.c/vgpu"),
        ("A.B/VGPU", ["a.b/vgpu"], "a.b/vgpu"),
        ("a.b/vgpu", ["a.b/vgpu"], ""),
        ("volcano.sh/gpu-cores", ["volcano.sh/gpu-memory", "volcano.sh/vgpu-number"], ""),
        ("volcano.sh/gpumemory", ["volcano.sh/gpu-memory", "volcano.sh/vgpu-number"], "volcano.sh/gpu-memory"),
        ("volcano.sh/x", ["volcano.sh/gpu-memory", "volcano.sh/vgpu-number"], ""),
        ("cpus", ["cpu", "memory"], "cpu"),
    ],
)
def test_names_of_one_domain_are_compared_by_what_follows_it(resource, known, expected) -> None:
    assert nearest(resource, known) == expected


def test_pods_that_request_different_amounts_are_scored_apart() -> None:
    packing = replace(conf(), binpack=Binpack(1, (("cpu", 1), ("memory", 1))))
    nodes = [node("a", cpu=4000), node("b", cpu=8000)]
    asked = [ask(container(cpu=cpu, memory=2**30)) for cpu in (1000, 2000, 4000)]
    together = cluster(*nodes, binpack=packing.binpack)
    found = [weighted_scores(together, what) for what in asked]
    assert found == [weighted_scores(cluster(*nodes, binpack=packing.binpack), what) for what in asked]
    assert len({tuple(each.items()) for each in found}) == 3
